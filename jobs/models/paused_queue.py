from django.db import models
from django.db.models.functions import Now


class PausedQueue(models.Model):
    """A queue from which nothing is claimed until it is resumed. Its row is the fact; resuming deletes it.

    The claim itself looks here, so from the commit of a pause on no worker on any host starts anything.
    """

    name = models.CharField(primary_key=True, max_length=50)
    paused_at = models.DateTimeField(db_default=Now())
    reason = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        verbose_name_plural = "queues"

    def __str__(self) -> str:
        return f"{self.name} (paused)"
