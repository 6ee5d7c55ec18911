from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Scope(models.TextChoices):
    """A use of a token of the API, as far as its user is allowed it."""

    READ = "read", "look"
    WRITE = "write", "create, change and delete"
    OPERATE = "operate", "trigger, pause, resume, back up now, retry, cancel, check in"


class ApiToken(models.Model):
    """A program's proof of identity at the API. It acts as `user`, within `scopes`. Only its digest is stored."""

    name = models.CharField(max_length=100, help_text="Program that uses it.")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    scopes = ArrayField(models.CharField(max_length=20, choices=Scope.choices))
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True, help_text="It does not expire if empty.")
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, help_text="When it was last used, to the minute.")

    class Meta:
        verbose_name = "API token"
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"


class IdempotencyKey(models.Model):
    """A request that created something and named a key: repeated with that key, it gets the first one's answer."""

    owner = models.CharField(max_length=100, help_text="Owner of the key: a user or a token.")
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64, help_text="Digest of method, path and body.")
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint("owner", "key", name="one_answer_per_idempotency_key")]

    def __str__(self) -> str:
        return f"{self.key} of {self.owner}"
