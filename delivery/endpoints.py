"""What people do about endpoints: set what is secret, rotate what signs, remove one.

checking   what an endpoint may be
testing    a test event
"""

from datetime import datetime
from typing import Any

from django.utils import timezone

from delivery import signing
from delivery.encryption import seal
from delivery.models import Endpoint, EndpointKind, SigningSecret
from jobs.handlers import registry
from jobs.models import BacklogRecord

MOST_COUNTED = 1000


def set_authorization(endpoint: Endpoint, text: str) -> None:
    """Seal the value of its Authorization header, unsaved; empty: it sends none."""
    endpoint.sealed_authorization = seal(text.strip())


def rotate(endpoint: Endpoint, keep_for: float = signing.KEEP_FOR, now: datetime | None = None) -> str:
    """Give it a new signing secret; those it has sign for `keep_for` seconds more. Returns it, to be shown once.

    Raises: ValueError for one whose events are not signed.
    """
    if endpoint.kind != EndpointKind.HTTP_CALLBACK:
        raise ValueError(
            f"{endpoint} takes messages of a queue, which are not signed: who may send them, the queue's policy says"
        )
    return signing.rotate(endpoint, keep_for, now)


def secret_facts(secret: SigningSecret, now: datetime) -> dict[str, Any]:
    """What is told of a signing secret: everything but the secret. `age` in seconds."""
    retired = secret.retires_at is not None and secret.retires_at <= now
    return {
        "id": secret.pk,
        "created_at": secret.created_at,
        "age": (now - secret.created_at).total_seconds(),
        "retires_at": secret.retires_at,
        "state": "retired" if retired else "retiring" if secret.retires_at else "in use",
    }


def obstacle_to_removing(endpoint: Endpoint) -> str:
    """Why it may not be removed, with what to do; empty: it may."""
    return next(filter(None, (use_of(endpoint) for use_of in registry.uses)), "")


def undelivered(endpoint: Endpoint) -> int:
    """How many events are still to be delivered there, up to MOST_COUNTED. Without the endpoint they will fail."""
    waiting = BacklogRecord.objects.unfinished().filter(kind=endpoint.kind, payload__endpoint=endpoint.pk)
    return waiting.order_by().values("pk")[:MOST_COUNTED].count()


def endpoint_facts(endpoint: Endpoint) -> dict[str, Any]:
    """An endpoint by name, without what is secret. `secrets`: how many sign for it now."""
    now = timezone.now()
    states = [secret_facts(secret, now)["state"] for secret in endpoint.signing_secrets.all()]
    return {
        "id": endpoint.pk,
        "name": endpoint.name,
        "kind": endpoint.kind,
        "url": endpoint.url,
        "headers": endpoint.headers,
        "authorization": "set" if endpoint.sealed_authorization else "not set",
        "secrets": len(states) - states.count("retired"),
        "connect_timeout": endpoint.connect_timeout,
        "timeout": endpoint.timeout,
        "follow_redirects": endpoint.follow_redirects,
        "region": endpoint.region,
        "message_group": endpoint.message_group,
        "schedules": endpoint.schedules.count(),
    }
