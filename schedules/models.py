from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from delivery.models import Endpoint
from jobs.instants import readable
from jobs.models.policies import Origin, Throttle
from schedules.cron import Period


class Stagger(models.TextChoices):
    """The times at which the events of a batch may start."""

    NONE = "none", "all at the trigger"
    EVEN = "even", "spread evenly over the window"


class Late(models.TextChoices):
    """The fate of an event that has not been delivered when its window closes."""

    DELIVER = "deliver", "deliver it all the same"
    DROP = "drop", "drop it: it fails"


class Overlap(models.TextChoices):
    """The behaviour of a trigger while an earlier batch of its schedule is unfinished."""

    ALLOW = "allow", "begin next to it"
    QUEUE = "queue", "wait until it is finished"
    SKIP = "skip", "emit nothing"


class Schedule(Origin):
    """A cron expression in a time zone, each trigger of which puts a batch of records on the backlog.

    The batch is `event_count` events, each with a separate id, or what the registered `provider` yields: a policy is a
    schedule whose provider is its assignments. `schedules/` emits. `next_trigger_at` is the emitter's watermark: every
    trigger before it has been dealt with. Durations are in seconds.
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
    paused_until = models.DateTimeField(
        null=True,
        editable=False,
        help_text="While it is disabled: instant at which it is enabled automatically; empty if a user enables it.",
    )
    paused_why = models.TextField(blank=True, default="", db_default="", editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="batch_is_counted_or_provided",
                condition=Q(provider="", event_count__gte=1) | (~Q(provider="") & Q(event_count__isnull=True)),
            ),
            readable("every_instant_of_a_schedule_is_readable", "next_trigger_at", "paused_until"),
        ]
        indexes = [
            # the emitter's question, each second and on every worker: is any schedule due?
            models.Index("next_trigger_at", name="schedule_due", condition=Q(enabled=True)),
        ]

    @property
    def period(self) -> Period:
        """The recurring period that the cron expression divides time into."""
        return Period(self.cron, self.zone)


class Trigger(models.Model):
    """One firing of a schedule at one launch time. Its batch is the records with its schedule and `trigger_at`.

    Waiting for an earlier batch: neither `emitted_at` nor `skipped_for`. Under way: emitted and not finished.
    """

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="triggers", db_index=False)
    trigger_at = models.DateTimeField(help_text="Its launch time.")
    seen_at = models.DateTimeField(db_default=Now(), help_text="When an emitter saw that it was due.")
    emitted_at = models.DateTimeField(null=True, help_text="When its batch was put on the backlog.")
    events = models.PositiveIntegerField(default=0, help_text="Number of records in its batch.")
    begins_at = models.DateTimeField(
        null=True,
        help_text="Instant from which its events start: its launch time, or when it was seen, if that was late.",
    )
    stagger = models.CharField(
        max_length=10,
        choices=Stagger.choices,
        blank=True,
        default="",
        db_default="",
        help_text="Configuration with which its batch was begun.",
    )
    late = models.CharField(
        max_length=10,
        choices=Late.choices,
        blank=True,
        default="",
        db_default="",
        help_text="Values with which its batch was begun.",
    )
    frozen_config = models.JSONField(
        null=True, help_text="Configuration for the rest of its batch, while only a part is on the backlog."
    )
    closes_at = models.DateTimeField(null=True, help_text="End of its window; empty if it has none.")
    skipped_for = models.CharField(max_length=200, blank=True, default="", help_text="Reason why it emitted nothing.")
    finished_at = models.DateTimeField(
        null=True, help_text="Instant at which it was seen that its whole batch had ended, or that it emits nothing."
    )
    asked_by = models.CharField(max_length=150, blank=True, default="", help_text="User who triggered it.")

    class Meta:
        ordering = ["-trigger_at", "-pk"]
        constraints = [
            models.UniqueConstraint("schedule", "trigger_at", name="one_trigger_per_launch_time"),
            models.CheckConstraint(
                name="skipped_trigger_emitted_nothing",
                condition=Q(skipped_for="") | Q(emitted_at__isnull=True, finished_at__isnull=False),
            ),
            readable(
                "every_instant_of_a_trigger_is_readable",
                "trigger_at",
                "seen_at",
                "emitted_at",
                "begins_at",
                "closes_at",
                "finished_at",
            ),
        ]
        indexes = [
            # overlap: is an earlier batch unfinished, and which trigger waits for it?
            models.Index("schedule", "trigger_at", name="trigger_unfinished", condition=Q(finished_at__isnull=True)),
            # the list of the admin, and pruning
            models.Index(F("trigger_at").desc(), F("id").desc(), name="trigger_latest"),
        ]

    def __str__(self) -> str:
        return f"{self.schedule} at {self.trigger_at:%Y-%m-%d %H:%M:%S} UTC"
