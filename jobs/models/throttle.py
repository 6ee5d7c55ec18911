from django.core.validators import MinValueValidator
from django.db import models


class Throttle(models.Model):
    """A cap on records in flight, shared by any number of schedules and policies."""

    name = models.CharField(max_length=100, unique=True)
    max_in_flight = models.PositiveIntegerField(
        validators=[MinValueValidator(1)], help_text="How many of its records may run at the same instant."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(max_in_flight__gte=1), name="throttle_lets_something_through")
        ]

    def __str__(self) -> str:
        return f"{self.name} (at most {self.max_in_flight})"
