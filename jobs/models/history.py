"""The history of backlog records: their attempts, and the log of decisions about them."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models.functions import Now

from jobs.models.record import BacklogRecord
from jobs.models.worker import Worker
from jobs.states import AttemptOutcome


class Attempt(models.Model):
    """One run of a record. Written once, when it ends, in the statement that settles the record.

    The key is (record, number): a separate id next to an index on the record costs 13 % of throughput. The
    foreign keys have no database constraint for the same reason (15 %).
    """

    pk = models.CompositePrimaryKey("record_id", "number")
    record = models.ForeignKey(
        BacklogRecord, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="attempts"
    )
    number = models.IntegerField(help_text="The record's fencing token at that claim; gaps are possible.")
    queue = models.CharField(max_length=50)
    worker = models.ForeignKey(
        Worker, null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    outcome = models.SmallIntegerField(choices=AttemptOutcome.choices)
    error = models.TextField(blank=True, default="")
    facts = models.JSONField(null=True, help_text="Facts that its handler found, such as the status of the answer.")

    class Meta:
        indexes = [
            # a day of all records; of rows that are written in this order, so it costs a settle next to nothing
            BrinIndex("ended_at", name="attempt_ended", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of record {self.record_id}"


class Level(models.IntegerChoices):
    """The two levels of the log."""

    DOING = 1, "doing"
    """Something that was done: asked, answered, handed on, began, succeeded, put off."""
    CONSIDERING = 2, "considering"
    """The records that a claim looked at, and the key of the claim order that decided. Off unless requested."""


class Decision(models.Model):
    """One line of the log: an action or a comparison, its instant, its subject, and the facts behind it.

    Kept for a while and in bounded number (`jobs/decisions.py`), so that yesterday can be explained.
    """

    at = models.DateTimeField(db_default=Now())
    level = models.SmallIntegerField(choices=Level.choices, default=Level.DOING)
    what = models.CharField(max_length=30, help_text="Such as `answered` or `silent`.")
    text = models.TextField(help_text="One sentence for operators.")
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
