from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.instants import readable
from sources.models import Policy


class AlertKind(models.TextChoices):
    """Kinds of alerts, in the order in which a message names them."""

    WATCHDOG = "watchdog", "the scheduler does not work as it should"
    HOLD = "hold", "everything is held"
    WORKER = "worker", "workers are silent"
    SCHEDULE = "schedule", "schedules did not fire"
    REPOSITORY = "repository", "repositories cannot be used"
    SPACE = "space", "repositories are nearly full"
    BREAKER = "breaker", "breakers are open"
    FAILING = "failing", "sources are failing"
    OVERDUE = "overdue", "sources are overdue"
    NEVER = "never", "sources were never backed up"
    HELD_BACK = "held_back", "backups look wrong, and are held back"
    CHECK = "check", "checks found damage"
    COPY = "copy", "copies are overdue or damaged"
    DRILL = "drill", "drills failed"
    SELF_BACKUP = "self_backup", "the scheduler itself was not backed up"


class Digest(models.TextChoices):
    """The times at which a route gets a summary."""

    NONE = "none", "never"
    DAILY = "daily", "daily"
    WEEKLY = "weekly", "weekly, on Mondays"


class AlertRoute(models.Model):
    """A route of alerts. `url` is a reference, `stored:NAME`, to an Apprise URL, which holds tokens.

    `sent_at`: when its last message was written. Machines set it, and `digest_at`.
    """

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField(max_length=500)
    enabled = models.BooleanField(default=True)
    kinds = models.JSONField(default=list, blank=True)
    policies = models.ManyToManyField(Policy, blank=True, related_name="alert_routes")
    quiet = models.JSONField(default=list, blank=True)
    zone = models.CharField(max_length=64, default="UTC")
    digest = models.CharField(max_length=10, choices=Digest.choices, default=Digest.NONE)
    sent_at = models.DateTimeField(null=True, editable=False)
    digest_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["name"]
        default_permissions = ("view",)  # superusers alone edit
        constraints = [readable("every_instant_of_an_alert_route_is_readable", "sent_at", "digest_at")]

    def __str__(self) -> str:
        return self.name


class Alert(models.Model):
    """A finding that an operator has to see. `known_to`: the routes that have to hear of its end.

    An alert is over once it has been calm for long enough (`calm_since`). Each route is alerted once, and hears of the
    end once.
    """

    kind = models.CharField(max_length=20, choices=AlertKind.choices)
    subject = models.CharField(max_length=200, help_text="Its subject, such as `assignment:7`.")
    policy = models.ForeignKey(Policy, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=300, help_text="Name of its subject, as users know it.")
    text = models.TextField(blank=True, default="", help_text="The reason, as of when it was raised.")
    since = models.DateTimeField(help_text="Beginning of the problem, as far as it is known.")
    raised_at = models.DateTimeField(db_default=Now())
    calm_since = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    known_to = ArrayField(models.BigIntegerField(), default=list, db_default=[])

    class Meta:
        ordering = ["-raised_at", "-pk"]
        constraints = [
            models.UniqueConstraint("kind", "subject", name="one_open_alert_per_subject", condition=Q(ended_at=None)),
            readable("every_instant_of_an_alert_is_readable", "since", "raised_at", "calm_since", "ended_at"),
        ]
        indexes = [
            # each minute: alerts that routes do not know yet
            models.Index("kind", name="alert_to_announce", condition=Q(ended_at=None) | ~Q(known_to=[])),
            # pruning
            models.Index("ended_at", name="alert_ended", condition=Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.text else self.name


class MessageType(models.TextChoices):
    """The type of a message that Apprise has: services colour and page by it."""

    FAILURE = "failure", "something needs an operator"
    SUCCESS = "success", "everything in it is over"
    INFO = "info", "a digest, or a test"


class AlertMessage(models.Model):
    """A message to a route: delivered, or tried again at `next_at`. After a day it is given up, and both are empty: its
    route then no longer counts as informed of what the message `raises`, and is informed again of what is still open.

    Not a record on the backlog: it must arrive when no worker is left to claim one, and while everything is on hold.
    """

    route = models.ForeignKey(AlertRoute, on_delete=models.CASCADE, related_name="messages")
    title = models.CharField(max_length=300)
    body = models.TextField()
    type = models.CharField(max_length=10, choices=MessageType.choices, default=MessageType.INFO)
    raises = ArrayField(models.BigIntegerField(), default=list, db_default=[], help_text="Ids of its open alerts.")
    made_at = models.DateTimeField(db_default=Now())
    attempts = models.IntegerField(default=0)
    next_at = models.DateTimeField(null=True, help_text="Instant of the next try; empty if there is none.")
    delivered_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="", help_text="Error of its last attempt.")

    class Meta:
        ordering = ["-made_at", "-pk"]
        indexes = [
            # each minute: messages to try
            models.Index("next_at", name="alert_message_due", condition=Q(next_at__isnull=False)),
        ]
        constraints = [readable("every_instant_of_an_alert_message_is_readable", "made_at", "next_at", "delivered_at")]

    def __str__(self) -> str:
        return self.title


class Watch(models.Model):
    """The one row of the watch over the scheduler: when a process last looked, and when it resumed after a gap.

    `looked_at`: the last round. `resumed_at`: the first round after a while without one: delays are counted from then
    on.
    """

    looked_at = models.DateTimeField()
    resumed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="one_watch"),
            readable("every_instant_of_a_watch_is_readable", "looked_at", "resumed_at"),
        ]

    def __str__(self) -> str:
        return "the watch over the scheduler"
