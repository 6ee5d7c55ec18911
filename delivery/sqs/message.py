"""Delivery of an event as a message of a queue that speaks SQS.

The body is the document that a callback gets; `event_id` and `schedule` are message attributes as well. A message may
be sent twice, as when a worker is killed after it was accepted: the receiver tells by the event id; a FIFO queue does
so itself for 5 minutes.

What is wrong with the host is counted by its breaker, as with a callback. Threads share what is known of endpoints, so
that hundreds of them do not keep a connection to the database each.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from django.db import connection

from delivery.addresses import Refused
from delivery.sqs import clients
from delivery.sqs.clients import ClientKey, Unready
from delivery.sqs.errors import meaning_of, too_large
from delivery.sqs.queues import LARGEST_MESSAGE, Queue, queue_at, request_for, size_of
from delivery.targets import Target, Targets, key_of
from jobs import breakers
from jobs.handlers import Run
from jobs.outcomes import Failed, Outcome, Released, Succeeded

targets = Targets()
_lock = Lock()


def deliver(run: Run) -> Outcome:
    """Send the event of a record to its queue. Runs in a thread.

    Raises: django.db.Error when the database does not say where it goes.
    """
    record, key = run.record, key_of(run.record)
    with _lock, _session_given_back():
        target = targets.known(key) or targets.ask([key])[key]
    if isinstance(target, str):
        return Failed(target)
    if target.host.is_open:
        # asked itself: it may have closed, or let this very record through as a trial
        with _lock, _session_given_back():
            refused = breakers.refusal(target.host.guarded, record)
        if refused is not None:
            return refused
    try:
        queue = queue_at(target.endpoint.url, target.endpoint.region)
    except Refused as error:
        return Failed(str(error))
    request = request_for(queue, record.payload, record.subject, target.endpoint.message_group)
    if size_of(request) > LARGEST_MESSAGE:
        return Failed(too_large(size_of(request)))
    if run.is_stopped:
        return Released()
    return _send(target, queue, request)


@contextmanager
def _session_given_back() -> Iterator[None]:
    try:
        yield
    finally:
        if not connection.in_atomic_block:
            connection.close()


def _send(target: Target, queue: Queue, request: dict[str, Any]) -> Outcome:
    endpoint, host = target.endpoint, target.host
    key = ClientKey(queue.server, queue.region, endpoint.connect_timeout, endpoint.timeout)
    began = time.monotonic()
    try:
        client = clients.client_for(key)
        began = time.monotonic()
        answer = client.send_message(**request)
        facts = {"status": answer["ResponseMetadata"].get("HTTPStatusCode"), "message_id": answer["MessageId"]}
    except Unready as error:
        return Failed(str(error))
    except Exception as error:  # also those of its parsers, for an answer that is no queue's
        meaning = meaning_of(error, size_of(request), endpoint.connect_timeout, endpoint.timeout)
        if meaning.credentials:
            clients.forget(key)
        host.is_doubted |= meaning.by_server
        return Failed(
            f"{queue}: {meaning.text}",
            fault_of=host.guarded if meaning.by_server else None,
            retry_after=meaning.retry_after,
            facts=({"status": meaning.status} if meaning.status else {}) | {"seconds": _seconds_since(began)},
        )
    if number := answer.get("SequenceNumber"):
        facts["sequence_number"] = number
    return Succeeded(facts=facts | {"seconds": _seconds_since(began)}, proves=host.proof())


def _seconds_since(began: float) -> float:
    return round(time.monotonic() - began, 3)
