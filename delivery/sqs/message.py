"""Delivery of an event as a message of a queue that speaks SQS.

The body is the document that a callback gets; `event_id` and `schedule` are message attributes as well. A message may
be sent twice, as when a worker is killed after it was accepted: the receiver notices by the event id; a FIFO queue does
so itself for 5 minutes.

It uses the client of callbacks, under the same rules about addresses, times and the size of answers. The host's breaker
counts its failures, as with a callback.
"""

import asyncio
import json
import time
from typing import Any

from yarl import URL

from delivery.addresses import AddressRefused
from delivery.blocking_calls import aside
from delivery.http import client
from delivery.sqs import signature
from delivery.sqs.errors import accepted, meaning_of, too_large
from delivery.sqs.queues import LARGEST_MESSAGE, Queue, queue_at, request_for, size_of
from delivery.targets import Target, target_of
from external.redaction import redacted
from jobs.handlers import Run
from jobs.outcomes import Facts, Failed, Outcome, Succeeded


async def deliver(run: Run) -> Outcome:
    """Send the event of a record to its queue. Cancelled, it breaks off: the record is released, and delivered again.

    Raises: django.db.Error if the database does not return its target.
    """
    record, target = run.record, await target_of(run.record)
    if not isinstance(target, Target):
        return target
    try:
        queue = queue_at(target.endpoint.url, target.endpoint.region)
    except AddressRefused as error:
        return Failed(str(error))
    request = request_for(queue, record.payload, record.subject, target.endpoint.message_group)
    if size_of(request) > LARGEST_MESSAGE:
        return Failed(too_large(size_of(request)))
    body = json.dumps(request).encode()
    try:
        async with asyncio.timeout(signature.SECONDS):
            headers = await aside(lambda: signature.signed(queue, body))
    except TimeoutError:
        return Failed(signature.NO_END)
    except signature.UnreadySignature as error:
        return Failed(str(error))
    return await _send(target, queue, request, body, headers)


async def _send(target: Target, queue: Queue, request: dict[str, Any], body: bytes, headers: dict[str, str]) -> Outcome:
    endpoint, host, began = target.endpoint, target.host, time.perf_counter()
    try:
        async with asyncio.timeout(endpoint.timeout):
            response, found = await client.post(URL(f"{queue.server}/"), body, headers, endpoint.connect_timeout)
    except client.RAISED as error:
        text = client.describe(error, str(queue), endpoint.connect_timeout, endpoint.timeout)
        by_server = not client.is_ours(error)
        host.is_doubted |= by_server
        return Failed(text, fault_of=host.guarded if by_server else None, facts=_facts(began))
    facts = {"status": response.status, **_facts(began)}
    answer = redacted(found.decode("utf-8", "replace"), [headers.get(name, "") for name in signature.SECRET])
    if kept := accepted(response.status, answer):
        return Succeeded(facts=facts | kept, proves=host.proof())
    meaning = meaning_of(response.status, answer, response.headers.get("Retry-After", ""), size_of(request))
    if meaning.credentials:
        signature.forget()
    host.is_doubted |= meaning.by_server
    fault_of = host.guarded if meaning.by_server else None
    return Failed(f"{queue}: {meaning.text}", fault_of=fault_of, retry_after=meaning.retry_after, facts=facts)


def _facts(began: float) -> Facts:
    return {"seconds": round(time.perf_counter() - began, 4)}
