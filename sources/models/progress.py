from django.db import models


class Progress(models.Model):
    """How far a running backup is. Overwritten a few times a second, gone when the attempt is settled."""

    record_id = models.BigIntegerField(primary_key=True)
    attempt = models.IntegerField()
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    files_done = models.BigIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "progress"

    def __str__(self) -> str:
        return f"record {self.record_id}: {self.bytes_done} of {self.bytes_total} bytes"
