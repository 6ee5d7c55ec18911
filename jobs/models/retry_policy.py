import logging
from typing import Any

from django.db import models

from jobs import retries

log = logging.getLogger(__name__)


class RetryPolicy(models.Model):
    """How long a record waits after its k-th failure, and when it gives up. All durations are in seconds.

    An edit takes effect at the next failure of each record; `jobs/rescheduling.py` gives it to what waits already.
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
            said = "; ".join(f"{field}: {' '.join(problems)}" for field, problems in found.items())
            log.error("retry policy %s cannot be used, Fibonacci is instead: %s", self, said)
            return retries.DEFAULT
        return self.as_rule()
