from django.db import models
from django.db.models import Q

from sources.models.policy import Policy
from sources.models.source import Source


class Pause(models.Model):
    """From when until when a person wanted no backups of a source: a pause; a snooze, whose end is known at once; or
    the time for which it was retired, once that is over. Or of a policy: it was disabled.

    What holds now stands in the source and in the schedule of the policy; this is what days that are over are judged
    by.
    """

    source = models.ForeignKey(Source, null=True, on_delete=models.CASCADE, related_name="pauses")
    policy = models.ForeignKey(Policy, null=True, on_delete=models.CASCADE, related_name="pauses")
    since = models.DateTimeField()
    until = models.DateTimeField(null=True, help_text="Empty: until a person resumes it.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(source=None, policy__isnull=False) | Q(source__isnull=False, policy=None),
                name="pause_of_a_source_or_a_policy",
            ),
            models.UniqueConstraint("source", name="one_open_pause_per_source", condition=Q(until=None)),
            models.UniqueConstraint("policy", name="one_open_pause_per_policy", condition=Q(until=None)),
        ]

    def __str__(self) -> str:
        return f"{self.source or self.policy} since {self.since:%Y-%m-%d %H:%M} UTC"
