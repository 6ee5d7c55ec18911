from django.db import models

from sources.models.assignment import Assignment
from sources.models.repository import Repository


class Backup(models.Model):
    """One completed run: what was copied, where to, how long it took."""

    assignment = models.ForeignKey(Assignment, on_delete=models.CASCADE, related_name="backups")
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="backups")
    record_id = models.BigIntegerField(
        null=True,
        help_text="The backlog record it ran as; that may have been pruned since. None: its result was lost, and its "
        "point was found in the repository.",
    )
    attempt = models.IntegerField()
    engine = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    size = models.BigIntegerField(help_text="Bytes that the backup protects.")
    files = models.BigIntegerField(help_text="Files that the backup protects.")
    new = models.BigIntegerField(null=True, help_text="Files that the last backup did not have.")
    changed = models.BigIntegerField(null=True, help_text="Files that differ from those of the last backup.")
    unchanged = models.BigIntegerField(null=True, help_text="Files that are as in the last backup.")
    removed = models.BigIntegerField(null=True, help_text="Files of the last backup that are gone.")
    read = models.BigIntegerField(null=True, help_text="Bytes read from the source.")
    added = models.BigIntegerField(null=True, help_text="Bytes added to the repository.")
    snapshot = models.CharField(max_length=500, help_text="The name of the point that it made, in the repository.")
    warnings = models.JSONField(blank=True, default=list, help_text="The first 20.")

    class Meta:
        ordering = ["-ended_at"]
        constraints = [
            # a settle that is repeated after an unknown COMMIT writes no second backup
            models.UniqueConstraint("record_id", "attempt", name="one_backup_per_attempt"),
        ]
        indexes = [
            # the list of the admin, and what a day added
            models.Index("ended_at", name="backup_ended"),
        ]

    def __str__(self) -> str:
        return f"{self.assignment.source} at {self.started_at:%Y-%m-%d %H:%M:%S %Z}"
