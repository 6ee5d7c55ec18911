from django.db import models

from jobs.models.retry_policy import RetryPolicy


class Origin(models.Model):
    """What puts records on the backlog again and again, as a schedule: what the queue has to know of it.

    A settle reads it: in which zone the days of its records are counted, which priority they return to after a failure,
    and by which policy they are retried from now on.
    """

    name = models.CharField(max_length=100, unique=True)
    zone = models.CharField(max_length=64, default="UTC")
    priority = models.IntegerField(default=0)
    retry_policy = models.ForeignKey(RetryPolicy, null=True, blank=True, on_delete=models.PROTECT)

    def __str__(self) -> str:
        return self.name
