from django.db import models


class Sweep(models.Model):
    """When the records of one tier were last swept (`jobs/sweeps/`): a row a tier, made at its first sweep."""

    max_age_days = models.PositiveIntegerField(unique=True, help_text="It takes records up to this old.")
    swept_at = models.DateTimeField()
    swept = models.PositiveIntegerField(default=0, help_text="How many records it made ready.")
    left_some = models.BooleanField(default=False, help_text="Whether it reached its greatest number and left others.")

    class Meta:
        ordering = ["max_age_days"]

    def __str__(self) -> str:
        return f"sweep of the last {self.max_age_days} day{'s' if self.max_age_days != 1 else ''}"
