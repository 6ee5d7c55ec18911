import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import models

from delivery.models import Endpoint
from jobs import throttles
from jobs.instants import readable
from jobs.models import Throttle
from schedules.models import Schedule
from sources.domain.retention import Keep, usual
from sources.domain.windows import Window
from sources.models.repository import Repository

log = logging.getLogger(__name__)

LOOK_AGAIN_AFTER = timedelta(hours=1)
"""The time after which a window that cannot be read is looked at again."""

Opening = tuple[datetime, datetime | None]


class AtClose(models.TextChoices):
    """The treatment of a running backup when its window closes."""

    FINISH = "finish", "let it finish"
    STOP = "stop", "stop it; it continues in the next opening"


class DrillFrom(models.TextChoices):
    """The repository that drills restore from."""

    REPOSITORY = "repository", "the repository of its backups"
    COPY = "copy", "the second one, as far as copies are there"


class Policy(models.Model):
    """A policy: how often its sources are backed up, in which window, to where, and how.

    It is a schedule whose events are its assignments: period, zone, priority, throttle and retry policy are those of
    its schedule. All durations are in seconds.
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
    hook = models.CharField(max_length=100, blank=True, default="")
    keep = models.JSONField(default=usual, blank=True)
    copy_to = models.ForeignKey(
        Repository, null=True, blank=True, on_delete=models.PROTECT, related_name="copied_policies"
    )
    copy_within = models.FloatField(default=86_400)
    copy_window = models.JSONField(default=list, blank=True)
    copy_bandwidth = models.CharField(max_length=500, blank=True, default="")
    check_within = models.FloatField(null=True, blank=True, default=28 * 86_400)
    drill_every = models.FloatField(null=True, blank=True, default=30 * 86_400)
    drill_from = models.CharField(max_length=10, choices=DrillFrom.choices, default=DrillFrom.REPOSITORY)
    max_running_for = models.FloatField(default=86_400)
    least_rate = models.PositiveIntegerField(null=True, blank=True)
    connect_timeout = models.FloatField(default=60)
    recheck_after = models.FloatField(default=900)
    vanish_grace = models.FloatField(default=120)
    address_follows = models.BooleanField(default=False)
    on_battery = models.BooleanField(default=True)
    on_metered = models.BooleanField(default=True)
    alert_after = models.FloatField(null=True, blank=True)
    paused_until = models.DateTimeField(
        null=True,
        editable=False,
        help_text="While it is disabled: instant at which it is enabled automatically; empty if a user enables it.",
    )
    paused_why = models.TextField(blank=True, default="", db_default="", editable=False)
    chance_over_at = models.DateTimeField(
        null=True, editable=False, help_text="End of the last period in which its window was open."
    )
    outcomes_endpoint = models.ForeignKey(
        Endpoint, null=True, blank=True, on_delete=models.PROTECT, related_name="policies"
    )
    ping_url = models.CharField(max_length=500, blank=True, default="")
    wake_allowed = models.BooleanField(default=False)
    wake_every = models.FloatField(default=14_400)
    wake_wait = models.FloatField(default=180)

    class Meta:
        verbose_name_plural = "policies"
        constraints = [readable("every_instant_of_a_policy_is_readable", "chance_over_at", "paused_until")]

    def __str__(self) -> str:
        return self.schedule.name

    @property
    def problem(self) -> str:
        """The reason why its cron, zone or window, written outside of the forms, cannot be read. Empty if they
        can.
        """
        try:
            self.schedule.period.check()
            _ = self.weekly_window
        except ValueError as error:
            return str(error)
        return ""

    @property
    def keeping(self) -> Keep:
        """The rules of its retention."""
        return Keep.parse(self.keep)

    @property
    def weekly_window(self) -> Window:
        """The window as a value of the pure domain."""
        return Window.parse(self.window, self.schedule.zone, self.excluded_dates)

    def opening(self, now: datetime) -> Opening:
        """The time from when (not before `now`) to when its backups may run. The end is None if the window never
        closes.

        A window that cannot be read (written outside of the forms) is closed, and must not delay other policies.
        """
        return self._opening(lambda: self.weekly_window, now)

    def copy_opening(self, now: datetime) -> Opening:
        """The same of its copies."""
        return self._opening(lambda: Window.parse(self.copy_window, self.schedule.zone), now)

    def _opening(self, window: Callable[[], Window], now: datetime) -> Opening:
        try:
            found = window().current_or_next(now)
        except ValueError as error:
            log.error("policy %s backs up nothing: its window cannot be read: %s", self, error)
            return now + LOOK_AGAIN_AFTER, now + LOOK_AGAIN_AFTER
        return (max(found.opens_at, now), found.closes_at) if found else (now, None)

    def throttle_key(self, *, first_backup: bool) -> tuple[int, ...]:
        """The throttles of its records, as `throttles.lanes_of` names them."""
        ids = [self.schedule.throttle_id]
        if first_backup and self.seeding_limit:
            ids.append(self.seeding_throttle_id)
        return throttles.key_of([throttle for throttle in ids if throttle is not None])

    def lane(self, *, first_backup: bool) -> int:
        """The lane of its records."""
        return throttles.lane_of(self.throttle_key(first_backup=first_backup))
