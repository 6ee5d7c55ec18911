from django.db import models
from django.db.models.functions import Now

from jobs.models.worker import Worker


class Level(models.IntegerChoices):
    """The two levels of the log."""

    DOING = 1, "doing"
    """What was done: asked, answered, handed on, began, succeeded, put off."""
    CONSIDERING = 2, "considering"
    """What a claim looked at, and which key of the claim order decided. Off unless it is asked for."""


class Decision(models.Model):
    """One line of the log: what was done or considered, when, about whom, with the facts it rests on.

    Kept for a while and in bounded number (`jobs/decisions.py`), so that yesterday can be explained.
    """

    at = models.DateTimeField(db_default=Now())
    level = models.SmallIntegerField(choices=Level.choices, default=Level.DOING)
    what = models.CharField(max_length=30, help_text="As `answered` or `silent`.")
    text = models.TextField(help_text="One sentence for people.")
    facts = models.JSONField(default=dict)
    kind = models.CharField(max_length=50, blank=True, default="")
    queue = models.CharField(max_length=50, blank=True, default="")
    subject = models.CharField(max_length=200, blank=True, default="")
    record_id = models.BigIntegerField(null=True)
    worker = models.ForeignKey(
        Worker, null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )

    class Meta:
        ordering = ["-id"]
        indexes = [
            # a day of one subject
            models.Index("kind", "subject", "at", name="decision_of_subject"),
            # pruning, and a day of everything
            models.Index("level", "at", name="decision_level_at"),
        ]

    def __str__(self) -> str:
        return self.text
