from django.db import models

from delivery.sealed_fields import SealedField
from sources.models.repository import Repository


class SelfBackup(models.Model):
    """A day's backup of the scheduler itself. `ended_at` is empty as long as it has not succeeded."""

    day = models.DateField(unique=True, help_text="In UTC.")
    repository = models.ForeignKey(Repository, null=True, on_delete=models.SET_NULL, related_name="+")
    ended_at = models.DateTimeField(null=True)
    file = models.CharField(max_length=500, blank=True, default="", help_text="Its path in the repository.")
    size = models.BigIntegerField(null=True, help_text="In bytes.")

    class Meta:
        ordering = ["-day"]
        verbose_name = "backup of the scheduler"
        verbose_name_plural = "backups of the scheduler"

    def __str__(self) -> str:
        return f"the scheduler on {self.day}"


class RecoveryKey(models.Model):
    """What opens the scheduler's own backups. There is one at most."""

    recipient = models.CharField(max_length=200)
    age_identity = models.TextField(help_text="Of age, sealed by the passphrase.")
    sealed_passphrase = SealedField(help_text="Sealed with a key derived from SECRET_KEY.")
    printed_at = models.DateTimeField(null=True, help_text="When a person last had the passphrase printed.")

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_recovery_key")]

    def __str__(self) -> str:
        return "the key of the scheduler's own backups"
