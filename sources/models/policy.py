from django.db import models

from jobs.models import Throttle
from schedules.models import Schedule
from sources.domain.retention import Keep, usual
from sources.domain.windows import Window
from sources.models.repository import Repository


class AtClose(models.TextChoices):
    """What becomes of a running backup when its window closes."""

    FINISH = "finish", "let it finish"
    STOP = "stop", "stop it; it goes on in the next opening"


class Policy(models.Model):
    """How often its sources are backed up, in which window, to where, and how.

    A policy is a schedule whose events are its assignments: period, zone, priority, throttle and retry policy
    are its schedule's. All durations are in seconds.
    """

    schedule = models.OneToOneField(Schedule, on_delete=models.PROTECT, related_name="policy")
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="policies")
    window = models.JSONField(default=list, blank=True)
    excluded_dates = models.JSONField(default=list, blank=True)
    at_close = models.CharField(max_length=10, choices=AtClose.choices, default=AtClose.FINISH)
    only_if_it_fits = models.BooleanField(default=False)
    seeding_limit = models.PositiveIntegerField(null=True, blank=True)
    seeding_throttle = models.OneToOneField(
        Throttle, null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )
    engine_options = models.JSONField(default=dict, blank=True)
    keep = models.JSONField(default=usual, blank=True)
    check_within = models.FloatField(null=True, blank=True, default=28 * 86_400)
    max_running_for = models.FloatField(default=86_400)
    least_rate = models.PositiveIntegerField(null=True, blank=True)
    connect_timeout = models.FloatField(default=60)
    recheck_after = models.FloatField(default=900)
    vanish_grace = models.FloatField(default=120)
    address_follows = models.BooleanField(default=False)
    on_battery = models.BooleanField(default=True)
    on_metered = models.BooleanField(default=True)
    alert_after = models.FloatField(null=True, blank=True)
    wake_allowed = models.BooleanField(default=False)
    wake_every = models.FloatField(default=14_400)
    wake_wait = models.FloatField(default=180)

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return self.schedule.name

    @property
    def keeping(self) -> Keep:
        """What its retention keeps."""
        return Keep.parse(self.keep)

    @property
    def weekly_window(self) -> Window:
        """The window as a value of the pure domain."""
        return Window.parse(self.window, self.schedule.zone, self.excluded_dates)
