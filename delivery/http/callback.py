"""Delivers an event by HTTP: POST with a JSON body. Hundreds at once, on the worker's event loop.

    {"schedule": "nightly", "trigger_at": "2026-03-02T09:00:00Z", "event_id": "7-20260302T090000Z-3", "number": 3,
     "count": 10, "payload": {…}}

`Idempotency-Key` is the event's id: a receiver that sees it again (its answer was lost, a worker was killed) has
handled the event already. Any 2xx is a delivery; its body is read, to use the connection again, and thrown away.
`delivery/http/answers.py` says what other answers mean.
"""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

from django.db.utils import Error

from delivery import failures, messages
from delivery.http.answers import failure_of, is_success
from delivery.http.exchanges import Exchange, NotFollowed
from delivery.http.lookup import Targets
from delivery.targets import Key, Target
from jobs import breakers
from jobs.database_errors import Trouble, trouble_of
from jobs.handlers import Run
from jobs.outcomes import Claimed, Facts, Failed, Outcome, Postponed, Succeeded
from jobs.states import WaitingFor
from jobs.worker.database_threads import ask_database

DATABASE_AWAY_SECONDS = 30.0

_targets: "WeakKeyDictionary[asyncio.AbstractEventLoop, Targets]" = WeakKeyDictionary()


async def deliver(run: Run) -> Outcome:
    """Deliver a claimed event. Cancelled, it breaks off: the record is released, and delivered again."""
    record = run.record
    try:
        target = await _known_targets().find(_key_of(record))
        if isinstance(target, str):
            return Failed(target)
        if target.host.is_open:
            # asked itself: it may have closed, or let this very record through as a trial
            refused = await ask_database(record.queue, breakers.refusal, target.host.guarded, record)
            if refused is not None:
                return refused
    except Error as error:
        if trouble_of(error) is Trouble.OURS:
            raise
        again_at = record.started_at + timedelta(seconds=DATABASE_AWAY_SECONDS)
        reason = f"the database did not answer ({str(error).strip()}); tried again at"
        return Postponed(again_at, WaitingFor.RECHECK, reason)
    return await _post(record, target)


def event_id_of(record: Claimed) -> str:
    """What tells its receiver that two deliveries are of the same event."""
    return str(record.payload.get("event_id") or record.subject)


def body_of(record: Claimed) -> bytes:
    """What is posted."""
    message = messages.message_of(record.payload)
    message["event_id"] = event_id_of(record)
    return _encode(message).encode()


_encode = json.JSONEncoder(separators=(",", ":")).encode
"""Made once: `json.dumps` makes an encoder each time, which is as much work again."""


def _known_targets() -> Targets:
    loop = asyncio.get_running_loop()
    known = _targets.get(loop)
    if known is None:
        known = _targets[loop] = Targets()
    return known


def _key_of(record: Claimed) -> Key:
    endpoint, url = record.payload.get("endpoint"), record.payload.get("url")
    return Key(endpoint, "") if isinstance(endpoint, int) else Key(None, str(url or ""))


async def _post(record: Claimed, target: Target) -> Outcome:
    began, host = time.perf_counter(), target.host
    exchange = Exchange(target, event_id_of(record), body_of(record))
    try:
        async with asyncio.timeout(target.timeout):
            answer = await exchange.run()
    except NotFollowed as error:
        return Failed(str(error), facts=_facts(began))
    except failures.RAISED as error:
        text = failures.describe(error, exchange.at.origin, target.connect_timeout, target.timeout)
        failed = Failed(text, fault_of=None if failures.is_ours(error) else host.guarded, facts=_facts(began))
    else:
        facts = {**_facts(began), **answer.facts}
        if is_success(answer):
            return Succeeded(proves=host.proof(), facts=facts)
        failed = failure_of(answer, host.guarded, exchange.at.origin, target.hidden, facts, datetime.now(UTC))
    if failed.fault_of:
        host.is_doubted = True
    return failed


def _facts(began: float) -> Facts:
    return {"seconds": round(time.perf_counter() - began, 4)}
