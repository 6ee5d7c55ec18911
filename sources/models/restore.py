from django.db import models

from sources.models.assignment import Assignment
from sources.models.repository import Repository


class To(models.TextChoices):
    """Where a restore writes."""

    FOLDER = "folder", "a folder of the worker's host"
    SOURCE = "source", "back to the source"
    DATABASE = "database", "a new database at the source"


class RestoreOutcome(models.TextChoices):
    """How a restore ended. One that is not over has none."""

    SUCCEEDED = "succeeded", "succeeded"
    INCOMPLETE = "incomplete", "incomplete: some files were not restored"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class Restore(models.Model):
    """What a person wanted back, and what came of it. It runs as a record of the kind `restore`."""

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="restores")
    point = models.CharField(max_length=30, help_text="As of when: the name of the point.")
    repository = models.ForeignKey(
        Repository,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="In which the point lies; none: it was deleted.",
    )
    paths = models.JSONField(default=list, help_text="Files and folders of the source; none: all.")
    to = models.CharField(max_length=10, choices=To.choices, help_text="Where to.")
    target = models.CharField(
        max_length=500, blank=True, help_text="The folder, in the source or on the worker's host; the new database."
    )
    overwrite = models.BooleanField(default=False, help_text="Whether files that differ are replaced.")
    asked_by = models.CharField(max_length=150)
    asked_at = models.DateTimeField()
    record_id = models.BigIntegerField(null=True, help_text="The backlog record it runs as; it may have been pruned.")
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, blank=True, choices=RestoreOutcome.choices)
    error = models.TextField(blank=True, default="")
    files = models.BigIntegerField(null=True, help_text="That were restored.")
    size = models.BigIntegerField(null=True, help_text="In bytes.")
    present = models.BigIntegerField(null=True, help_text="Files that were there already, as in the backup.")
    not_set = models.JSONField(default=list, help_text="Modes, times and links that could not be set: the first 100.")
    failed = models.JSONField(default=list, help_text="Files that were not restored, and why: the first 100.")

    class Meta:
        ordering = ["-asked_at"]

    def __str__(self) -> str:
        return f"{self.assignment.source} as of {self.point}"
