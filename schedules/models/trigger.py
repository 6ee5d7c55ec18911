from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from schedules.models import Late, Schedule, Stagger


class Trigger(models.Model):
    """One firing of a schedule at one launch time. Its batch is the records with its schedule and `trigger_at`.

    Waiting for an earlier batch: neither `emitted_at` nor `skipped_for`. Under way: emitted and not finished.
    """

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="triggers", db_index=False)
    trigger_at = models.DateTimeField(help_text="Its launch time.")
    seen_at = models.DateTimeField(db_default=Now(), help_text="When an emitter saw that it was due.")
    emitted_at = models.DateTimeField(null=True, help_text="When its batch was put on the backlog.")
    events = models.PositiveIntegerField(default=0, help_text="How many records its batch has.")
    begins_at = models.DateTimeField(
        null=True, help_text="From when on its events start: its launch time, or when it was seen, if that was late."
    )
    stagger = models.CharField(
        max_length=10,
        choices=Stagger.choices,
        blank=True,
        default="",
        db_default="",
        help_text="What its batch was begun with.",
    )
    late = models.CharField(
        max_length=10,
        choices=Late.choices,
        blank=True,
        default="",
        db_default="",
        help_text="What its batch was begun with.",
    )
    frozen_config = models.JSONField(
        null=True, help_text="What the rest of its batch is made of, while only a part of it is on the backlog."
    )
    closes_at = models.DateTimeField(null=True, help_text="When its window closes. Empty: never.")
    skipped_for = models.CharField(max_length=200, blank=True, default="", help_text="Why it emitted nothing.")
    finished_at = models.DateTimeField(
        null=True, help_text="When it was seen that its whole batch had ended, or that it emits nothing."
    )
    asked_by = models.CharField(max_length=150, blank=True, default="", help_text="Who triggered it by hand.")

    class Meta:
        ordering = ["-trigger_at", "-pk"]
        constraints = [
            models.UniqueConstraint("schedule", "trigger_at", name="one_trigger_per_launch_time"),
            models.CheckConstraint(
                name="skipped_trigger_emitted_nothing",
                condition=Q(skipped_for="") | Q(emitted_at__isnull=True, finished_at__isnull=False),
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
