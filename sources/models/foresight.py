"""The latest look ahead: which assignments will probably miss their period."""

from django.db import models

from jobs.instants import readable


class Foresight(models.Model):
    """One row, written every quarter of an hour. `at_risk`: the first ones, as they are shown."""

    at = models.DateTimeField()
    seconds = models.FloatField(help_text="Seconds that the look took.")
    looked_at = models.PositiveIntegerField(help_text="Assignments that were due.")
    number = models.PositiveIntegerField(help_text="Assignments at risk.")
    at_risk = models.JSONField(default=list)
    unnamed = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Assignments that miss their period in a run, on average, without being at risk.",
    )
    units = models.PositiveIntegerField()
    units_needed = models.PositiveIntegerField(
        null=True, help_text="Units that are enough for 99 % of the sources that are there; empty if unknown."
    )
    because = models.TextField(blank=True, default="", help_text="Reason why nothing was foreseen; empty if it was.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="one_foresight"),
            readable("every_instant_of_a_foresight_is_readable", "at"),
        ]

    def __str__(self) -> str:
        return f"foreseen at {self.at:%Y-%m-%d %H:%M} UTC"
