from django.db import models

from sources.models.assignment import Assignment
from sources.models.repository import Repository


class Copy(models.Model):
    """What an assignment has in a second repository: copies of its points, as the policy's `copy_to` wants them, or
    wanted them once."""

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="copies")
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="copies")
    planned_at = models.DateTimeField(help_text="When its last record was put on the backlog.")
    copied_at = models.DateTimeField(null=True, help_text="When it last had all points; empty: it never did.")
    as_of = models.DateTimeField(null=True, help_text="The start of the last backup at that time.")
    points = models.JSONField(default=list, help_text="The names of the points that lie there.")
    size = models.BigIntegerField(default=0, help_text="Bytes that the last run copied.")
    error = models.TextField(blank=True, default="", help_text="Why the last run failed, or what is wrong with it.")

    class Meta:
        verbose_name_plural = "copies"
        constraints = [
            models.UniqueConstraint("assignment", "repository", name="one_copy_per_assignment_and_repository")
        ]

    def __str__(self) -> str:
        return f"copy of {self.assignment} in {self.repository}"
