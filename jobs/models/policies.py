"""The rows that hold records up (retry policies and sweeps, throttles, breakers), and the origins of records."""

import logging
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from external.formatting import several
from jobs import retries
from jobs.instants import readable

log = logging.getLogger(__name__)


class RetryPolicy(models.Model):
    """The rule for the wait of a record after its k-th failure, and for giving up. All durations are in seconds.

    An edit takes effect at the next failure of a record, and at once for those that wait by the policy already
    (`jobs/rescheduling.py`).
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
        cap = float(self.max_delay or 0)  # a form that lacks it reports that itself
        return retries.Rule(self.algorithm, parameters, cap, self.max_failures, self.give_up_after)

    def usable_rule(self) -> retries.Rule:
        """The rule; the default one for an invalid row that was not written by a form, which must not delay failed
        records."""
        if found := retries.problems(self.algorithm, self.parameters, self.max_failures):
            problems = "; ".join(f"{field}: {' '.join(each)}" for field, each in found.items())
            log.error("retry policy %s cannot be used; Fibonacci is used instead: %s", self, problems)
            return retries.DEFAULT
        return self.as_rule()


class Origin(models.Model):
    """The queue's view of something that puts records on the backlog again and again, such as a schedule.

    A settle reads it: the zone in which the days of its records are counted, the priority to which they return after a
    failure, and the policy by which they are retried from now on.
    """

    name = models.CharField(max_length=100, unique=True)
    zone = models.CharField(max_length=64, default="UTC")
    priority = models.IntegerField(default=0)
    retry_policy = models.ForeignKey(RetryPolicy, null=True, blank=True, on_delete=models.PROTECT)

    def __str__(self) -> str:
        return self.name


class Sweep(models.Model):
    """The instant at which the records of one tier were last swept (`jobs/sweeps.py`): one row per tier."""

    max_age_days = models.PositiveIntegerField(unique=True, help_text="Largest age of the records that it takes.")
    swept_at = models.DateTimeField()
    swept = models.PositiveIntegerField(default=0, help_text="Number of records that it made ready.")
    left_some = models.BooleanField(default=False, help_text="True if it reached its greatest number and left others.")

    class Meta:
        ordering = ["max_age_days"]
        constraints = [readable("every_instant_of_a_sweep_is_readable", "swept_at")]

    def __str__(self) -> str:
        return f"sweep of the last {several(self.max_age_days, 'day')}"


class Throttle(models.Model):
    """A cap on records in flight, and on the number that begin per second, shared by any number of origins.

    The rate is a token bucket: `rate` tokens a second flow in, at most `bucket_size` are in it, and each record that is
    claimed takes one. Its content at an instant is `tokens` plus the inflow since `tokens_at`.
    """

    name = models.CharField(max_length=100, unique=True)
    max_in_flight = models.PositiveIntegerField()
    rate = models.FloatField(null=True, blank=True)
    burst = models.PositiveIntegerField(null=True, blank=True)
    tokens = models.FloatField(default=0, editable=False)
    tokens_at = models.DateTimeField(db_default=Now(), editable=False)
    paused_until = models.DateTimeField(
        null=True,
        editable=False,
        help_text="While it is paused: instant at which it is resumed automatically; empty if a user resumes it.",
    )
    paused_why = models.CharField(max_length=200, blank=True, default="", db_default="", editable=False)
    in_flight_before = models.PositiveIntegerField(
        null=True, editable=False, help_text="While it is paused: the number of records that may run otherwise."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(name="rate_lets_something_through", condition=Q(rate__isnull=True) | Q(rate__gt=0)),
            models.CheckConstraint(
                name="burst_lets_something_through", condition=Q(burst__isnull=True) | Q(burst__gt=0)
            ),
            models.CheckConstraint(name="tokens_are_not_owed", condition=Q(tokens__gte=0)),
            readable("every_instant_of_a_throttle_is_readable", "tokens_at", "paused_until"),
        ]

    def __str__(self) -> str:
        if not self.max_in_flight:
            return f"{self.name} ({self.paused_words})"
        rate = f", {self.rate:g} a second" if self.rate else ""
        return f"{self.name} (at most {self.max_in_flight}{rate})"

    @property
    def paused_words(self) -> str:
        """The pause, with its end and reason if they are known; empty while it lets something through."""
        if self.max_in_flight:
            return ""
        until = f" until {self.paused_until:%Y-%m-%d %H:%M} UTC" if self.paused_until else ""
        return f"paused{until}{f': {self.paused_why}' if self.paused_why else ''}"

    @property
    def bucket_size(self) -> float:
        """The number of tokens in a full bucket."""
        return float(self.burst or max(1.0, self.rate or 1.0))


class Lane(models.Model):
    """The records that name the same set of throttles. Lane 0 has no row: it names none.

    The claim index leads with the lane, so a lane whose throttle is full costs a claim nothing.
    """

    throttle_ids = ArrayField(models.BigIntegerField(), unique=True, help_text="Ids of its throttles, ascending.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(throttle_ids=[]), name="lane_zero_has_no_row"),
        ]

    def __str__(self) -> str:
        return f"lane {self.pk} (throttles {', '.join(map(str, self.throttle_ids))})"


class Breaker(models.Model):
    """Stops attempts at a target that fails for all its records, such as a host that is down (`jobs/breakers/`).

    Closed: `opened_at` is empty, records go through. Open: they wait, except for a trial now and then.
    """

    key = models.CharField(max_length=200, unique=True, help_text="Such as `repository:3`.")
    title = models.CharField(max_length=200, help_text="Name of what it guards, as users know it.")
    failures = models.IntegerField(default=0, help_text="Consecutive failures of what it guards.")
    last_failure_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True, default="")
    opened_at = models.DateTimeField(
        null=True, help_text="Instant since which only trials go through; empty if it is closed."
    )
    trials = models.IntegerField(default=0, help_text="Failed trials since it opened.")
    trial_id = models.BigIntegerField(null=True, help_text="The record that was let through as a trial.")
    probe_at = models.DateTimeField(
        null=True,
        help_text="Instant at which the next record is let through, or, once it is closed, the records that wait.",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="open_breaker_will_be_probed", condition=Q(opened_at__isnull=True) | Q(probe_at__isnull=False)
            ),
            readable("every_instant_of_a_breaker_is_readable", "last_failure_at", "opened_at", "probe_at"),
        ]

    def __str__(self) -> str:
        return self.title or self.key

    @property
    def is_open(self) -> bool:
        """True if nothing goes through but trials."""
        return self.opened_at is not None
