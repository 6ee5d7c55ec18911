from django.db import models
from django.db.models.functions import Now

from delivery.addresses import LONGEST_URL
from jobs.instants import readable
from sealing.fields import SealedField


class EndpointKind(models.TextChoices):
    """The way in which events are delivered to an endpoint: the kind of their records."""

    HTTP_CALLBACK = "http_callback", "HTTP callback"
    SQS_MESSAGE = "sqs_message", "SQS message"


class Endpoint(models.Model):
    """A receiver of events; `delivery/` delivers them.

    Sealed fields are encrypted with the installation's secret key (`sealing/encryption.py`) and never shown again.
    """

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=20, choices=EndpointKind.choices, default=EndpointKind.HTTP_CALLBACK)
    url = models.CharField(max_length=LONGEST_URL)
    headers = models.JSONField(default=dict, blank=True)
    sealed_authorization = SealedField(blank=True, default="", editable=False)
    connect_timeout = models.FloatField(default=5)
    timeout = models.FloatField(default=30)
    follow_redirects = models.BooleanField(default=False)
    region = models.CharField(max_length=50, blank=True, default="")
    message_group = models.CharField(max_length=128, blank=True, default="")

    def __str__(self) -> str:
        return self.name


class SigningSecret(models.Model):
    """A secret that signs callbacks to an endpoint. Each secret in use signs, so that a receiver can change over."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="signing_secrets")
    sealed = SealedField()
    created_at = models.DateTimeField(db_default=Now())
    retires_at = models.DateTimeField(null=True, blank=True, help_text="Nothing is signed with it from then on.")

    class Meta:
        ordering = ["created_at", "pk"]
        constraints = [readable("every_instant_of_a_signing_secret_is_readable", "created_at", "retires_at")]

    def __str__(self) -> str:
        return f"signing secret {self.pk} of {self.endpoint}"
