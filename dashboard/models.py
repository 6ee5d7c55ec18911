from django.db import models

from jobs.instants import readable


class DayTotal(models.Model):
    """A day in UTC, for all sources together: one bar of the home page. Today, if it is much, has the instant of its
    count in `counted_at`; a day that was counted when it was over has none.

    Each assignment counts once: with a success; otherwise with a failure; otherwise, if it never answered, as missed.
    `added`: repository → bytes that the day's backups added to it.
    """

    date = models.DateField(unique=True)
    succeeded = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    missed = models.PositiveIntegerField(default=0)
    added = models.JSONField(default=dict)
    counted_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [readable("every_instant_of_a_day_is_readable", "counted_at")]

    def __str__(self) -> str:
        return f"{self.date}: {self.succeeded} succeeded, {self.failed} failed, {self.missed} missed"
