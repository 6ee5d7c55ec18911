from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models

from jobs.models import Schedule
from jobs.retries import LONGEST
from sources.domain.windows import Window
from sources.models.repository import Repository


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
    engine_options = models.JSONField(
        default=dict, blank=True, help_text='Options of the engine, as {"transfers": 4, "bwlimit": "10M"}.'
    )
    keep_versions = models.PositiveIntegerField(
        default=7, help_text="How many earlier versions of changed and deleted files to keep."
    )
    connect_timeout = models.FloatField(
        default=60, validators=[MinValueValidator(0.1)], help_text="Seconds to wait for a source to answer."
    )
    recheck_after = models.FloatField(
        default=900,
        validators=[MinValueValidator(1)],
        help_text="Seconds until a silent source is asked again.",
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
        """Check durations, window and engine options. Raises: ValidationError naming the field."""
        from sources.validation import check_engine_options, check_window

        errors: dict[str, list[str]] = {}
        for name in ("connect_timeout", "recheck_after", "wake_every", "wake_wait"):
            seconds = getattr(self, name)
            if isinstance(seconds, int | float) and not seconds <= LONGEST:
                errors[name] = [f"must be at most {LONGEST} seconds, not {seconds}"]
        for check, value in ((check_window, self.window), (check_engine_options, self.engine_options)):
            try:
                check(value)
            except ValidationError as error:
                errors |= error.message_dict
        if errors:
            raise ValidationError(dict(errors))

    @property
    def weekly_window(self) -> Window:
        """The window as a value of the pure domain."""
        return Window.parse(self.window, self.schedule.zone)
