from datetime import datetime, timedelta

from django.db import models
from django.db.models.functions import Now

from jobs import conf
from jobs.instants import readable


class Worker(models.Model):
    """A process that serves queues. A row is new at each process start and never comes back to life."""

    name = models.CharField(max_length=200, help_text="host:pid")
    hostname = models.CharField(max_length=200)
    pid = models.IntegerField()
    queues = models.JSONField(default=dict, help_text="Queue → number of its records that this worker runs at once.")
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True)
    clock_skew = models.FloatField(
        null=True, help_text="Seconds by which its machine's clock was ahead of the database's at the last heartbeat."
    )
    sockets = models.IntegerField(
        null=True,
        help_text="Number of sockets that its questions may hold open, as its limit of file descriptors allows.",
    )
    out_of_sockets_at = models.DateTimeField(
        null=True, help_text="Instant at which it last asked no other source because all of them were open."
    )

    class Meta:
        indexes = [
            # the look-ahead asks for the units of the living, at every availability claim
            models.Index("heartbeat_at", name="worker_alive", condition=models.Q(stopped_at=None)),
        ]
        constraints = [
            readable(
                "every_instant_of_a_worker_is_readable", "started_at", "heartbeat_at", "stopped_at", "out_of_sockets_at"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} (#{self.pk})"

    @classmethod
    def alive(cls, now: datetime) -> models.QuerySet["Worker"]:
        """Workers with a heartbeat within the last lease."""
        return cls.objects.filter(stopped_at=None, heartbeat_at__gt=now - timedelta(seconds=conf.lease_seconds()))

    def is_alive(self, now: datetime) -> bool:
        return self.stopped_at is None and self.heartbeat_at > now - timedelta(seconds=conf.lease_seconds())


class PausedQueue(models.Model):
    """A queue from which nothing is claimed until it is resumed. Its row is the fact; resuming deletes it.

    The claim itself looks here, so from the commit of a pause on no worker on any host starts anything.
    """

    name = models.CharField(primary_key=True, max_length=50)
    paused_at = models.DateTimeField(db_default=Now())
    paused_until = models.DateTimeField(
        null=True, help_text="Instant at which it is resumed automatically; empty if a user resumes it."
    )
    reason = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        verbose_name_plural = "queues"
        constraints = [readable("every_instant_of_a_paused_queue_is_readable", "paused_at", "paused_until")]

    def __str__(self) -> str:
        return f"{self.name} (paused)"


class Hold(models.Model):
    """While its one row is there nothing is claimed from any queue, and running records are stopped and given back.

    Claims and heartbeats look here; ending the hold deletes the row. Paused queues stay paused.
    """

    id = models.SmallIntegerField(primary_key=True, default=1, editable=False)
    since = models.DateTimeField(db_default=Now())
    reason = models.CharField(max_length=200)
    by = models.CharField(max_length=200)
    until = models.DateTimeField(
        null=True, help_text="Instant at which it is released automatically; empty if a user releases it."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="one_hold_at_a_time"),
            readable("every_instant_of_a_hold_is_readable", "since", "until"),
        ]

    def __str__(self) -> str:
        return f"held since {self.since:%Y-%m-%d %H:%M} UTC by {self.by}: {self.reason}"


class PastHold(models.Model):
    """A hold that was released: days on which nothing was done are judged by it."""

    since = models.DateTimeField()
    until = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [readable("every_instant_of_a_past_hold_is_readable", "since", "until")]

    def __str__(self) -> str:
        return f"held from {self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} UTC"
