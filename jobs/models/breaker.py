from django.db import models
from django.db.models import Q


class Breaker(models.Model):
    """Stops trying what fails for everybody, as a host that is down. `jobs/breakers/` tells how.

    Closed: `opened_at` is empty, records go through. Open: they wait, but for a trial every now and then.
    """

    key = models.CharField(max_length=200, unique=True, help_text="As `repository:3`.")
    title = models.CharField(max_length=200, help_text="What it guards, for people.")
    failures = models.IntegerField(default=0, help_text="Failures in a row that were its own.")
    last_failure_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True, default="")
    opened_at = models.DateTimeField(null=True, help_text="Since when nothing goes through but trials. Empty: closed.")
    trials = models.IntegerField(default=0, help_text="Trials in vain since it opened.")
    trial_id = models.BigIntegerField(null=True, help_text="The record that was let through as a trial.")
    probe_at = models.DateTimeField(
        null=True, help_text="When the next record is let through; of a closed one, when those that wait are."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="open_breaker_will_be_probed", condition=Q(opened_at__isnull=True) | Q(probe_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.key

    @property
    def is_open(self) -> bool:
        """Whether nothing goes through but trials."""
        return self.opened_at is not None
