from collections.abc import Callable
from datetime import datetime

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone

from jobs.models import Throttle
from jobs.retries import LONGEST
from schedules.cron import check_expression, check_zone
from schedules.models import Schedule
from sources.domain.windows import Window
from sources.models.repository import Repository

DURATIONS = (
    "max_running_for", "connect_timeout", "recheck_after", "vanish_grace", "alert_after", "wake_every", "wake_wait",
)  # fmt: skip


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
    window = models.JSONField(
        default=list,
        blank=True,
        help_text='When it may run, in its zone, as [{"days": "mon-fri", "start": "22:00", "end": "06:00"}]. '
        "Empty: always.",
    )
    excluded_dates = models.JSONField(
        default=list,
        blank=True,
        help_text='Local dates on which no range of its window begins, as ["2026-12-24", "12-25", '
        '"2026-12-27..2026-12-31"]. A date without a year is every year\'s.',
    )
    at_close = models.CharField(
        max_length=10,
        choices=AtClose.choices,
        default=AtClose.FINISH,
        help_text="What becomes of a running backup when the window closes.",
    )
    only_if_it_fits = models.BooleanField(
        default=False,
        help_text="Start only what its last duration lets end before the window closes. What was left out in three "
        "openings running is started in the next one all the same.",
    )
    seeding_limit = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="At most so many execution units for first backups. Empty: no limit.",
    )
    seeding_throttle = models.OneToOneField(
        Throttle, null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )
    engine_options = models.JSONField(
        default=dict, blank=True, help_text='Options of the engine, as {"transfers": 4, "bwlimit": "10M"}.'
    )
    keep_versions = models.PositiveIntegerField(
        default=7, help_text="How many earlier versions of changed and deleted files to keep."
    )
    max_running_for = models.FloatField(
        default=86_400,
        validators=[MinValueValidator(1)],
        help_text="Seconds after which a backup that still runs is stopped. A day is usual.",
    )
    least_rate = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Bytes a second. A backup that fetches fewer over five minutes is ended, which is a failure of its "
        "source. Many small files are slow by nature. Empty: no limit.",
    )
    connect_timeout = models.FloatField(
        default=60, validators=[MinValueValidator(0.1)], help_text="Seconds to wait for a source to answer."
    )
    recheck_after = models.FloatField(
        default=900,
        validators=[MinValueValidator(1)],
        help_text="Seconds until a silent source is asked again.",
    )
    vanish_grace = models.FloatField(
        default=120,
        validators=[MinValueValidator(0)],
        help_text="Seconds that a source which stopped answering in mid-backup is waited for.",
    )
    address_follows = models.BooleanField(
        default=False,
        help_text="Take over the address from which an SFTP source checks in, if its pinned host key answers there.",
    )
    on_battery = models.BooleanField(default=True, help_text="Back up sources that say they run on battery.")
    on_metered = models.BooleanField(default=True, help_text="Back up sources that say their connection is metered.")
    alert_after = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Seconds without a backup after which an assignment is overdue. Empty: a whole period was missed.",
    )
    wake_allowed = models.BooleanField(default=False, help_text="Send a magic packet to a silent source.")
    wake_every = models.FloatField(
        default=14_400,
        validators=[MinValueValidator(0)],
        help_text="At most one magic packet in this many seconds.",
    )
    wake_wait = models.FloatField(
        default=180,
        validators=[MinValueValidator(0.1)],
        help_text="Seconds from a magic packet to the re-check.",
    )

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return self.schedule.name

    def clean(self) -> None:
        """Check durations, choices, window and engine options. Raises: ValidationError naming the field."""
        from sources.validation import check_engine_options, check_window

        errors: dict[str, list[str]] = {}
        if self.at_close not in AtClose.values:
            errors["at_close"] = [f"is {' or '.join(AtClose.values)}, not {self.at_close!r}"]
        for name in DURATIONS:
            seconds = getattr(self, name)
            if isinstance(seconds, int | float) and not seconds <= LONGEST:
                errors[name] = [f"must be at most {LONGEST} seconds, not {seconds}"]
        checks: tuple[Callable[[], object], ...] = (
            lambda: check_window(self.window, self.excluded_dates),
            lambda: check_engine_options(self.engine_options),
            self.check_openings,
        )
        for check in checks:
            try:
                check()
            except ValidationError as error:
                errors = error.message_dict | errors
        if errors:
            raise ValidationError(dict(errors))

    def check_openings(self, now: datetime | None = None) -> list[str]:
        """Check that its window ever opens for its periods. Returns warnings: of coming periods without an opening.

        What its schedule or window has wrong otherwise is told elsewhere. Raises: ValidationError naming the field.
        """
        from sources.validation import check_period_and_window

        try:
            check_expression(self.schedule.cron)
            check_zone(self.schedule.zone)
            window = self.weekly_window
        except (ObjectDoesNotExist, ValueError):
            return []
        return check_period_and_window(self.schedule.period, window, now or timezone.now())

    @property
    def weekly_window(self) -> Window:
        """The window as a value of the pure domain."""
        return Window.parse(self.window, self.schedule.zone, self.excluded_dates)
