"""The tables and views of operations in addition to those of the queue."""

from django.db import models

from jobs.models import BacklogRecord, Worker
from jobs.states import AttemptOutcome


class RateCount(models.Model):
    """The number of attempts at something in a window of time, for all processes together (`operations/limits.py`).

    `key`: a name and a digest of the limited subject; neither an account nor an address can be read in it.
    """

    key = models.CharField(primary_key=True, max_length=100)
    number = models.IntegerField()
    ends_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.key}: {self.number}"


class AttemptEntry(models.Model):
    """An attempt as the admin lists it: the admin cannot show a table with a composite key.

    A view of the database (`operations_attempt_entry`), never written.
    """

    id = models.CharField(primary_key=True, max_length=50)
    record = models.ForeignKey(BacklogRecord, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    number = models.IntegerField()
    queue = models.CharField(max_length=50)
    worker = models.ForeignKey(Worker, null=True, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    outcome = models.SmallIntegerField(choices=AttemptOutcome.choices)
    error = models.TextField(blank=True)
    facts = models.JSONField(null=True)

    class Meta:
        managed = False
        db_table = "operations_attempt_entry"
        verbose_name = "attempt"
        ordering = ["-record_id", "-number"]

    def __str__(self) -> str:
        return f"attempt {self.number} of record {self.record_id}"


class AttemptTotal(models.Model):
    """Attempts of one sort that have ended in one way within a number of seconds, since the installation began
    (`operations/totals.py`). Only ever grows.
    """

    kind = models.CharField(max_length=50)
    queue = models.CharField(max_length=50)
    sort = models.CharField(
        max_length=50, blank=True, help_text="Such as the kind of the source; empty if there is none."
    )
    outcome = models.SmallIntegerField(choices=AttemptOutcome.choices)
    up_to = models.FloatField(help_text="Greatest duration in seconds; each took longer than the next lower step.")
    number = models.BigIntegerField()
    seconds = models.FloatField(help_text="Seconds that they took together.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "queue", "sort", "outcome", "up_to"], name="one_total_per_sort_of_attempt"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number} × {self.kind} {self.get_outcome_display()} within {self.up_to:g} s"
