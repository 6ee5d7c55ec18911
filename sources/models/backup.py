from django.db import models

from sources.models.assignment import Assignment
from sources.models.repository import Repository


class Backup(models.Model):
    """One completed run: what was copied, where to, how long it took."""

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="backups")
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="backups")
    record_id = models.BigIntegerField(help_text="The backlog record it ran as; that may have been pruned since.")
    attempt = models.IntegerField()
    engine = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    size = models.BigIntegerField(help_text="Bytes that the backup protects.")
    transferred = models.BigIntegerField(help_text="Bytes that had to be copied.")
    files = models.BigIntegerField(help_text="Files that the backup protects.")
    snapshot = models.CharField(max_length=500, help_text="Where in the repository it lies.")
    warnings = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["-ended_at"]
        constraints = [
            # a settle that is repeated after an unknown COMMIT writes no second backup
            models.UniqueConstraint("record_id", "attempt", name="one_backup_per_attempt"),
        ]

    def __str__(self) -> str:
        return f"{self.assignment.source} at {self.started_at:%Y-%m-%d %H:%M:%S %Z}"
