from django.db import models


class DayTotal(models.Model):
    """A day of UTC that is over, of all sources together: one bar of the home page.

    Each assignment counts once: with a success; else with a failure; else, where it never answered, as missed.
    `added`: repository → bytes that the day's backups added to it.
    """

    date = models.DateField(unique=True)
    succeeded = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    missed = models.PositiveIntegerField(default=0)
    added = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.date}: {self.succeeded} succeeded, {self.failed} failed, {self.missed} missed"
