from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from jobs.cron import Period, check_expression, check_zone
from jobs.models.retry_policy import RetryPolicy
from jobs.models.throttle import Throttle

MAX_PRIORITY = 100_000
"""Either way. What a woken source's re-check adds (a million) stays recognisable, and nothing overflows."""


class Schedule(models.Model):
    """A cron expression in a time zone, whose triggers put a batch of records on the backlog.

    `provider` names the registered function that yields the batch of a trigger (a policy's assignments are one).
    `next_trigger_at` is the emitter's watermark: everything before it has been emitted.
    """

    name = models.CharField(max_length=100, unique=True)
    cron = models.CharField(
        max_length=100,
        help_text="Five fields: minute, hour, day of month, month, day of week. As `0 9 * * 1-5`.",
    )
    zone = models.CharField(max_length=64, default="UTC", help_text="IANA time zone, as Europe/Berlin.")
    kind = models.CharField(max_length=50, help_text="Kind of the records it emits.")
    provider = models.CharField(max_length=50, help_text="What yields the records of a trigger.")
    enabled = models.BooleanField(default=True)
    priority = models.IntegerField(default=0, help_text="Of its records: higher runs first.")
    throttle = models.ForeignKey(Throttle, null=True, blank=True, on_delete=models.PROTECT)
    retry_policy = models.ForeignKey(RetryPolicy, null=True, blank=True, on_delete=models.PROTECT)
    next_trigger_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        indexes = [
            # the emitter's question, each second and on every worker: is any schedule due?
            models.Index("next_trigger_at", name="schedule_due", condition=Q(enabled=True)),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Check cron, zone and priority. Raises: ValidationError naming the field."""
        errors = {}
        if isinstance(self.priority, int) and abs(self.priority) > MAX_PRIORITY:
            errors["priority"] = f"must lie between -{MAX_PRIORITY} and {MAX_PRIORITY}, not {self.priority}"
        for field, check in (("cron", check_expression), ("zone", check_zone)):
            try:
                check(getattr(self, field))
            except ValueError as error:
                errors[field] = str(error)
        if errors:
            raise ValidationError(dict(errors))

    @property
    def period(self) -> Period:
        """The recurring period that the cron expression divides time into."""
        return Period(self.cron, self.zone)
