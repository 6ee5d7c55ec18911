"""Delivery of an event as a message of a queue that speaks SQS.

The body is the document that a callback gets (`delivery/messages.py`); `event_id` and `schedule` are message
attributes as well. A message may be sent twice, as when a worker is killed after it was accepted: the receiver tells by
the event id; a FIFO queue does so itself for 5 minutes.

What is wrong with the host is counted by its breaker, as with a callback. Threads share what is known of an endpoint
for a second, so that hundreds of them do not keep a connection to the database each.
"""

import time
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Any

from django.db import connection
from django.db.utils import Error

from delivery import addresses
from delivery.addresses import Refused
from delivery.models import Endpoint, EndpointKind
from delivery.sqs import clients
from delivery.sqs.clients import ClientKey, Unready
from delivery.sqs.errors import NO_QUEUES, meaning_of, too_large
from delivery.sqs.queues import LARGEST_MESSAGE, Queue, describe, queue_at, request_for, size_of
from jobs import breakers
from jobs.clock import boot_seconds
from jobs.database_errors import Trouble, trouble_of
from jobs.handlers import Run
from jobs.models import Breaker
from jobs.outcomes import Facts, Failed, Guarded, Held, Outcome, Postponed, Released, Succeeded
from jobs.states import WaitingFor

MOST_KNOWN = 1000

DATABASE_AWAY_SECONDS = 30.0

KNOWN_FOR = 1.0
"""Seconds for which what is known of an endpoint is not asked again."""


@dataclass(frozen=True)
class Target:
    """Where an event goes, and what its breaker says."""

    endpoint: Endpoint
    queue: Queue
    breaker_is_open: bool
    was_troubled: bool

    @property
    def key(self) -> ClientKey:
        """What its client is made for."""
        return ClientKey(self.queue.server, self.queue.region, self.endpoint.connect_timeout, self.endpoint.timeout)

    @property
    def guarded(self) -> Guarded:
        return guarded_at(self.queue)


def guarded_at(queue: Queue) -> Guarded:
    """What the breaker of a queue guards: its host."""
    return Guarded(f"host:{queue.server}", queue.server)


def deliver(run: Run) -> Outcome:
    """Send the event of a record to its queue. Runs in a thread."""
    payload = run.record.payload
    try:
        target = _target(payload)
        held = _refusal(target.guarded, run) if target.breaker_is_open else None
    except ValueError as error:
        return Failed(str(error))
    except Error as error:
        if trouble_of(error) is Trouble.OURS:
            raise
        again_at = run.record.started_at + timedelta(seconds=DATABASE_AWAY_SECONDS)
        return Postponed(again_at, WaitingFor.RECHECK, f"the database did not answer ({str(error).strip()})")
    if held:
        return held
    request = request_for(target.queue, payload, run.record.subject, target.endpoint.message_group)
    size = size_of(request)
    if size > LARGEST_MESSAGE:
        return Failed(too_large(size))
    if run.is_stopped:
        return Released()
    return _send(target, request, size)


def _send(target: Target, request: dict[str, Any], size: int) -> Outcome:
    began = time.monotonic()
    try:
        client = clients.client_for(target.key)
        began = time.monotonic()
        answer = client.send_message(**request)
    except Unready as error:
        return Failed(str(error))
    except Exception as error:  # also those of its parsers, for an answer that is no queue's
        return _failed(target, error, size, time.monotonic() - began)
    facts = _facts(answer["ResponseMetadata"].get("HTTPStatusCode"), time.monotonic() - began)
    if not answer.get("MessageId"):
        return Failed(f"{describe(target.queue.url)}: {NO_QUEUES}", fault_of=target.guarded, facts=facts)
    facts["message_id"] = answer["MessageId"]
    if number := answer.get("SequenceNumber"):
        facts["sequence_number"] = number
    return Succeeded(facts=facts, proves=target.guarded if target.was_troubled else None)


def _failed(target: Target, error: Exception, size: int, seconds: float) -> Failed:
    within = getattr(error, "kwargs", {}).get("error")
    if isinstance(within, Refused):
        return Failed(f"nothing may be sent to {describe(target.queue.url)}: {within}")
    found = meaning_of(error, size, target.endpoint.connect_timeout, target.endpoint.timeout)
    if found.credentials:
        clients.forget(target.key)
    return Failed(
        f"{describe(target.queue.url)}: {found.text}",
        fault_of=target.guarded if found.by_server else None,
        retry_after=found.retry_after,
        facts=_facts(found.status, seconds),
    )


def _facts(status: int | None, seconds: float) -> Facts:
    """As of a callback: the status of the answer, if there was one, and how long it took."""
    return ({"status": status} if status else {}) | {"seconds": round(seconds, 3)}


_known: dict[int | str, tuple[float, Target]] = {}
_lock = Lock()


def forget_all() -> None:
    """For tests."""
    _known.clear()


def _target(payload: dict[str, Any]) -> Target:
    """Where this event goes. Raises: ValueError saying what to do when that is nowhere."""
    named = payload.get("endpoint") or payload.get("url")
    if not named or not isinstance(named, int | str):
        raise ValueError("the event names no endpoint: choose one in its schedule, for what is emitted from then on")
    with _lock:
        at, target = _known.get(named, (0.0, None))
        if target is None or boot_seconds() - at > KNOWN_FOR:
            try:
                target = _look_up(named)
            finally:
                if not connection.in_atomic_block:
                    connection.close()
            if len(_known) >= MOST_KNOWN:
                _known.clear()
            _known[named] = (boot_seconds(), target)
        return target


def _look_up(named: int | str) -> Target:
    """From the id of an endpoint, as it is now; or from the address of a queue, without an endpoint."""
    if isinstance(named, str):
        endpoint = Endpoint(kind=EndpointKind.SQS_MESSAGE, url=named)
    elif (found := Endpoint.objects.filter(pk=named, kind=EndpointKind.SQS_MESSAGE).first()) is None:
        raise ValueError(f"there is no SQS endpoint {named} any more: it was deleted since this event was emitted")
    else:
        endpoint = found
    try:
        queue = queue_at(endpoint.url, endpoint.region)
        addresses.refuse_unless_allowed(addresses.read(endpoint.url))
    except Refused as error:
        raise ValueError(f"nothing may be sent to {describe(endpoint.url)}: {error}") from error
    breaker = Breaker.objects.filter(key=breakers.key_of(guarded_at(queue))).first()
    is_open = breaker is not None and breaker.is_open
    return Target(endpoint, queue, is_open, is_open or (breaker is not None and breaker.failures > 0))


def _refusal(guarded: Guarded, run: Run) -> Held | None:
    """Whether the breaker refuses this very record: a trial of it is chosen after what is known was asked."""
    try:
        return breakers.refusal(guarded, run.record)
    finally:
        if not connection.in_atomic_block:
            connection.close()
