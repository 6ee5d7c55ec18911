"""Events on their way, in a few words."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import async_to_sync

from delivery import handlers
from delivery.models import Endpoint
from jobs.handlers import Run
from jobs.outcomes import BreakerTarget, ClaimedRecord, Failed, Outcome
from tests.delivery.receiver import Handle, Speak, receiving, speaking
from tests.factories import make_claimed
from tests.waiting import PATIENCE

EVENT_ID = "7-20260302T090000Z-3"


def make_endpoint(url: str, **fields: Any) -> Endpoint:
    return Endpoint.objects.create(
        **({"name": f"endpoint at {url}", "url": url, "connect_timeout": PATIENCE, "timeout": PATIENCE} | fields)
    )


def make_event(endpoint: Endpoint | None = None, url: str | None = None, **payload: Any) -> ClaimedRecord:
    """The third of ten events of a schedule, claimed."""
    return make_claimed(
        kind="http_callback",
        queue="callbacks",
        subject=EVENT_ID,
        payload={
            "title": "nightly 3/10",
            "schedule": "nightly",
            "trigger_at": "2026-03-02T09:00:00Z",
            "event_id": EVENT_ID,
            "number": 3,
            "count": 10,
            "endpoint": endpoint.pk if endpoint else None,
            "url": url,
            "body": {"shard": 3, "city": "Zürich"},
            **payload,
        },
    )


def deliver(*records: ClaimedRecord) -> list[Outcome]:
    """Deliver them one after the other, as one event loop does."""

    async def one_after_the_other() -> list[Outcome]:
        return [await handlers.deliver(Run(record)) for record in records]

    return async_to_sync(one_after_the_other)()


def deliver_at_once(*records: ClaimedRecord) -> list[Outcome]:
    """Deliver them all at the same time."""

    async def at_once() -> list[Outcome]:
        return list(await asyncio.gather(*(handlers.deliver(Run(record)) for record in records)))

    return async_to_sync(at_once)()


def on_a_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    return async_to_sync(work)()


def failure_at(handle: Handle, **fields: Any) -> Failed:
    """The error of a delivery at a server that does `handle`. `fields`: of its endpoint."""
    with receiving(handle) as receiver:
        [outcome] = deliver(make_event(make_endpoint(receiver.url, **fields)))
        assert len(receiver.requests) == 1
    assert isinstance(outcome, Failed)
    return outcome


def fault_at(speak: Speak, **fields: Any) -> Failed:
    """The same at a server that does `speak`, which is its own fault, and asked once."""
    with speaking(speak) as receiver:
        [outcome] = deliver(make_event(make_endpoint(receiver.url, **fields)))
        assert receiver.connections == 1
    assert isinstance(outcome, Failed)
    assert outcome.fault_of == BreakerTarget(f"host:{receiver.origin}", receiver.origin)
    return outcome
