from django.db import models


class RateCount(models.Model):
    """How often something was tried in a window of time, counted for all processes together (`operations/limits.py`).

    `key`: a name and a digest of what is limited; neither an account nor an address can be read in it.
    """

    key = models.CharField(primary_key=True, max_length=100)
    number = models.IntegerField()
    ends_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.key}: {self.number}"
