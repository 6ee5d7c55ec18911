"""A test event: sent to an endpoint at an operator's request, and its result.

It takes the way of every event, through the backlog: a worker delivers it, with its credentials and from its network.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from delivery.models import Endpoint
from jobs import backlog
from jobs.backlog import NewRecord
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.priorities import MAX_PRIORITY
from jobs.states import FINISHED, AttemptOutcome
from operations.backlog.reason import texts
from operations.backlog.reasons import explain

TEST_WITHIN = timedelta(seconds=60)
"""A test event is dropped when no worker has begun to deliver it by then. One that failed waits at least that long for
its retry, so it is not sent again."""

LOOK_EVERY = 0.05
"""Seconds."""


def send_test(endpoint: Endpoint, now: datetime | None = None) -> int:
    """Put a test event for it on the backlog, before all others. Returns the id of its record."""
    instant = now or database_clock()
    event_id = f"test-{endpoint.pk}-{instant:%Y%m%dT%H%M%S%fZ}"
    payload = {
        "title": f"test of {endpoint}",
        "schedule": "test",
        "trigger_at": f"{instant:%Y-%m-%dT%H:%M:%SZ}",
        "event_id": event_id,
        "number": 1,
        "count": 1,
        "endpoint": endpoint.pk,
        "url": None,
        "body": {"test": True},
    }
    record = NewRecord(event_id, payload, closes_at=instant + TEST_WITHIN)
    backlog.enqueue(endpoint.kind, [record], priority=MAX_PRIORITY, now=now)
    return BacklogRecord.objects.get(kind=endpoint.kind, subject=event_id).pk


@dataclass(frozen=True)
class EndpointVerdict:
    """The result of a test event so far. `ended`: delivered, or an attempt failed. `seconds` until its answer came."""

    record_id: int
    ended: bool
    delivered: bool = False
    code: int | None = None
    seconds: float | None = None
    why: str = ""


def wait_for_test(record_id: int, seconds: float) -> EndpointVerdict:
    """The result of a test event after `seconds` at most. One that failed is not tried again."""
    deadline = time.monotonic() + seconds
    while not (found := _look(record_id)).ended and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
    if found.ended and not found.delivered:
        backlog.cancel([record_id])
    return found


def _look(record_id: int) -> EndpointVerdict:
    record = BacklogRecord.objects.filter(pk=record_id).first()
    if record is None:
        return EndpointVerdict(record_id, ended=True, why="its record is gone")
    tried = Attempt.objects.filter(record_id=record.pk).exclude(outcome=AttemptOutcome.RELEASED)
    if last := tried.order_by("number").last():
        facts = last.facts or {}
        delivered = last.outcome == AttemptOutcome.SUCCEEDED
        return EndpointVerdict(record_id, True, delivered, facts.get("status"), facts.get("seconds"), last.error)
    if record.status in FINISHED:
        return EndpointVerdict(record_id, ended=True, why=record.last_error)
    return EndpointVerdict(record_id, ended=False, why="; ".join(texts(explain(record, database_clock()).reasons)))


def describe(tested: EndpointVerdict) -> str:
    """A test in one sentence."""
    answer = f"{tested.code} after {tested.seconds:.3f} s" if tested.code and tested.seconds is not None else ""
    if tested.delivered:
        return f"delivered: it answered {answer}" if answer else "delivered"
    if tested.ended:
        return f"not delivered{f' ({answer})' if answer else ''}: {tested.why}"
    return f"not delivered yet: {tested.why or 'it is under way'}"
