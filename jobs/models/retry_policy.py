import logging
from typing import Any

from django.db import models

from jobs import retries
from jobs.formatting import several

log = logging.getLogger(__name__)


class RetryPolicy(models.Model):
    """How long a record waits after its k-th failure, and when it gives up. All durations are in seconds.

    An edit takes effect at the next failure of each record.
    """

    name = models.CharField(max_length=100, unique=True)
    algorithm = models.CharField(max_length=20, choices=[(name, name) for name in sorted(retries.ALGORITHMS)])
    parameters = models.JSONField(default=dict, blank=True)
    max_delay = models.PositiveIntegerField(default=86_400)
    max_failures = models.PositiveIntegerField(null=True, blank=True)
    give_up_after = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "retry policies"

    def __str__(self) -> str:
        return self.name

    def as_rule(self) -> retries.Rule:
        """The policy as a value that the pure functions of `jobs.retries` take."""
        parameters: dict[str, Any] = self.parameters
        cap = float(self.max_delay or 0)  # a form that lacks it says so by itself
        return retries.Rule(self.algorithm, parameters, cap, self.max_failures, self.give_up_after)

    def usable_rule(self) -> retries.Rule:
        """The same; the default one for a row that was written past the forms, which must not hold up what fails."""
        if found := retries.problems(self.algorithm, self.parameters, self.max_failures):
            problems = "; ".join(f"{field}: {' '.join(each)}" for field, each in found.items())
            log.error("retry policy %s cannot be used, Fibonacci is instead: %s", self, problems)
            return retries.DEFAULT
        return self.as_rule()


class Origin(models.Model):
    """What puts records on the backlog again and again, as a schedule: what the queue has to know of it.

    A settle reads it: in which zone the days of its records are counted, which priority they return to after a failure,
    and by which policy they are retried from now on.
    """

    name = models.CharField(max_length=100, unique=True)
    zone = models.CharField(max_length=64, default="UTC")
    priority = models.IntegerField(default=0)
    retry_policy = models.ForeignKey(RetryPolicy, null=True, blank=True, on_delete=models.PROTECT)

    def __str__(self) -> str:
        return self.name


class Sweep(models.Model):
    """When the records of one tier were last swept (`jobs/retries/sweeps.py`): a row a tier."""

    max_age_days = models.PositiveIntegerField(unique=True, help_text="It takes records up to this old.")
    swept_at = models.DateTimeField()
    swept = models.PositiveIntegerField(default=0, help_text="How many records it made ready.")
    left_some = models.BooleanField(default=False, help_text="Whether it reached its greatest number and left others.")

    class Meta:
        ordering = ["max_age_days"]

    def __str__(self) -> str:
        return f"sweep of the last {several(self.max_age_days, 'day')}"
