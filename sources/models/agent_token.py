from django.db import models
from django.db.models import Q

from sources.models.source import Source


class AgentToken(models.Model):
    """What the agent of a source proves itself with. Only a digest is kept: the token itself is shown once.

    A rotated token is a second row; the older one is revoked when the newer one is first used.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="tokens")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the token, in hexadecimal.")
    inserted_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, help_text="When it was last accepted.")
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index("source", name="agent_token_valid", condition=Q(revoked_at=None))]

    def __str__(self) -> str:
        return f"token {self.pk} of {self.source}"


class EnrolmentCode(models.Model):
    """A code that an agent exchanges for a token, once, before it expires. Only a digest is kept."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="enrolment_codes")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the code, in hexadecimal.")
    inserted_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"enrolment code {self.pk} of {self.source}"
