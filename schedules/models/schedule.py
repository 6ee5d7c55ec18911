from django.db import models
from django.db.models import Q

from delivery.models import Endpoint
from jobs.models.policies import Origin, Throttle
from schedules.cron import Period


class Stagger(models.TextChoices):
    """When the events of a batch may start."""

    NONE = "none", "all at the trigger"
    EVEN = "even", "spread evenly over the window"


class Late(models.TextChoices):
    """What becomes of an event that has not been delivered when its window closes."""

    DELIVER = "deliver", "deliver it all the same"
    DROP = "drop", "drop it: it fails"


class Overlap(models.TextChoices):
    """What a trigger does while an earlier batch of its schedule is unfinished."""

    ALLOW = "allow", "begin beside it"
    QUEUE = "queue", "wait until it is finished"
    SKIP = "skip", "emit nothing"


class Schedule(Origin):
    """A cron expression in a time zone, each trigger of which puts a batch of records on the backlog.

    The batch is `event_count` events, each with an id of its own, or what the registered `provider` yields: a policy is
    a schedule whose provider is its assignments. `schedules/` emits. `next_trigger_at` is the emitter's watermark:
    every trigger before it has been dealt with. Durations are in seconds.
    """

    origin = models.OneToOneField(Origin, on_delete=models.CASCADE, parent_link=True, primary_key=True)
    cron = models.CharField(max_length=100)
    kind = models.CharField(max_length=50)
    provider = models.CharField(max_length=50, blank=True, default="")
    event_count = models.PositiveIntegerField(null=True, blank=True)
    endpoint = models.ForeignKey(Endpoint, null=True, blank=True, on_delete=models.PROTECT, related_name="schedules")
    payload_template = models.JSONField(default=dict, blank=True)
    window_for = models.PositiveIntegerField(default=0)
    stagger = models.CharField(max_length=10, choices=Stagger.choices, default=Stagger.NONE)
    late = models.CharField(max_length=10, choices=Late.choices, default=Late.DELIVER)
    overlap = models.CharField(max_length=10, choices=Overlap.choices, default=Overlap.ALLOW)
    catch_up_for = models.PositiveIntegerField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    throttle = models.ForeignKey(Throttle, null=True, blank=True, on_delete=models.PROTECT)
    next_trigger_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="batch_is_counted_or_provided",
                condition=Q(provider="", event_count__gte=1) | (~Q(provider="") & Q(event_count__isnull=True)),
            ),
        ]
        indexes = [
            # the emitter's question, each second and on every worker: is any schedule due?
            models.Index("next_trigger_at", name="schedule_due", condition=Q(enabled=True)),
        ]

    @property
    def period(self) -> Period:
        """The recurring period that the cron expression divides time into."""
        return Period(self.cron, self.zone)
