"""Endpoints for tests, and a worker that delivers what is ready when a test event is waited for."""

from collections.abc import Callable
from typing import Any

import pytest

from delivery.models import Endpoint, EndpointKind
from jobs import claiming, settling
from jobs.outcomes import ClaimedRecord, Outcome
from operations import endpoint_tests
from sealing.encryption import seal
from tests.factories import make_worker

QUEUE_URL = "https://sqs.eu-central-1.amazonaws.com/1234/events"


def make_endpoint(name: str = "hooks", **fields: Any) -> Endpoint:
    return Endpoint.objects.create(**({"name": name, "url": "https://example.com/hooks"} | fields))


def make_queue_endpoint(name: str = "queue", **fields: Any) -> Endpoint:
    return make_endpoint(name, kind=EndpointKind.SQS_MESSAGE, **({"url": QUEUE_URL} | fields))


def sealed(secret: str = "Bearer sesame") -> dict[str, str]:
    """Arguments of `make_endpoint`: an Authorization."""
    return {"sealed_authorization": seal(secret)}


def a_worker_delivers(
    monkeypatch: pytest.MonkeyPatch, outcome: Callable[[ClaimedRecord], Outcome]
) -> list[ClaimedRecord]:
    """While a test event is waited for, a worker takes what is ready, with that outcome. Returns what it took."""
    taken: list[ClaimedRecord] = []
    worker = make_worker()

    def work(_: float) -> None:
        records = claiming.claim("callbacks", worker_id=worker.pk, limit=10)
        taken.extend(records)
        settling.settle([(record, outcome(record)) for record in records])

    monkeypatch.setattr(endpoint_tests.time, "sleep", work)
    return taken
