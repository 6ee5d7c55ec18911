from django.db import models

from sources.models.assignment import Assignment
from sources.models.repository import Repository


class CheckRound(models.Model):
    """How far what an assignment has in its repository was read and compared with its manifests, and what is damaged.

    `part` and `after`: where the next run reads on (`sources.storage.checking`); both empty: with a new round.
    """

    assignment = models.OneToOneField(
        Assignment, on_delete=models.CASCADE, related_name="check_round", primary_key=True
    )
    planned_at = models.DateTimeField(help_text="When its last record was put on the backlog.")
    began_at = models.DateTimeField(null=True, help_text="When this round began; empty: none is under way.")
    repository = models.ForeignKey(
        Repository, on_delete=models.SET_NULL, null=True, related_name="+", help_text="Where the next run reads on."
    )
    part = models.CharField(max_length=40, blank=True, default="")
    after = models.TextField(blank=True, default="")
    total = models.BigIntegerField(default=0, help_text="Bytes of the round.")
    read = models.BigIntegerField(default=0, help_text="Bytes read of it so far.")
    checked_at = models.DateTimeField(null=True, help_text="When anything was last read.")
    ended_at = models.DateTimeField(null=True, help_text="When everything had been read for the last time.")
    damage = models.JSONField(default=list, help_text="Files of points that are not what their manifests say.")

    def __str__(self) -> str:
        return f"check of {self.assignment}"
