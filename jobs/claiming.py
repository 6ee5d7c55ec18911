"""The lease protocol: claim, renew, settle, rescue. Nobody else writes a running record.

Who is authoritative: the database. Its clock dates every lease; its row says who owns a record. A worker only
believes that it owns one, and is told otherwise when it writes.

1. *Claim.* One statement takes the first ready records of a queue in claim order, skipping what other claims hold
   locked, and turns them to `running` with a lease: `attempt + 1`, `leased_by`, a random `lease_token`,
   `lease_expires_at`. Killed before the commit: nothing happened. Killed after it: the lease expires.
2. *Renew.* The worker's heartbeat extends all its leases in one statement, on a connection of its own. What it does
   not get back it has lost, and stops. A worker that could not renew for two thirds of a lease stops its engines
   itself: the fence protects rows, not repositories.
3. *Settle.* The outcome of an attempt is written with its history row, in one transaction, and only if `id`,
   `attempt`, `leased_by` and `lease_token` are still those of the claim. Else the lease was lost: the result is
   dropped. Unless the history has this very attempt of this worker: then an earlier try of this same settle went
   through and only its answer was lost.
4. *Rescue.* Anybody may settle an expired lease as a failure. It looks at `lease_expires_at`, never at the start:
   backups run for hours.

Rows are always locked in id order; throttles in id order before any record. `attempt` only ever grows, so a stale
attempt can never be taken for the current one. Lease arithmetic uses `clock_timestamp()`: `now()` is the start of
the transaction, which may have waited long for a lock. Tests inject `now`.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.utils import InterfaceError, OperationalError

from jobs import breakers, conf, exclusivity, throttles
from jobs.changes import changes_of, columns_of
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.lease_statements import (
    CLAIM,
    EXPIRED,
    LOCK_IN_ID_ORDER,
    RENEW,
    SETTLE,
    SETTLE_SUCCEEDED,
    STRAYS,
)
from jobs.models import Attempt
from jobs.order import in_claim_order
from jobs.outcomes import Cancelled, Claimed, Failed, Outcome, Released, Succeeded
from jobs.prepared import execute
from jobs.states import AttemptOutcome, Status
from jobs.telling import facts_as_json
from jobs.wakeups import notify

log = logging.getLogger(__name__)

Results = Sequence[tuple[Claimed, Outcome]]


class LeaseLost(Exception):
    """A result came from an attempt that no longer owns its record; it was dropped."""


@dataclass(frozen=True)
class Settled:
    """What a settle did: record ids whose attempt is in the history now, and those whose lease was lost."""

    written: frozenset[int]
    lost: frozenset[int]

    def raise_if_lost(self) -> None:
        """Raises: LeaseLost when any result was dropped."""
        if self.lost:
            raise LeaseLost(f"the lease of record {', '.join(map(str, sorted(self.lost)))} was lost")


@dataclass(frozen=True)
class Renewed:
    """What a renewal found: ids that the worker still owns, and those of them that a person cancelled."""

    owned: frozenset[int]
    cancelled: frozenset[int]


def claim(queue: str, *, worker_id: int, limit: int, now: datetime | None = None) -> list[Claimed]:
    """Take up to `limit` ready records of `queue`, in claim order, with a lease each. From a paused queue: none.

    Returns them in claim order. `now` (aware) replaces the database's clock in tests.
    """
    if limit <= 0:
        return []
    token = uuid4()
    lease = {"worker": worker_id, "token": token, "lease": conf.lease_seconds(), "now": now}
    values = {"queue": queue, "limit": limit, **lease}
    rows = [] if throttles.named_by_ready(queue) else execute(CLAIM, values).fetchall()
    rows = rows or throttles.claim_beside_throttles(values)
    return in_claim_order([_claimed(row, worker_id, token) for row in rows])


def renew(held: dict[int, UUID], *, worker_id: int, now: datetime | None = None) -> Renewed:
    """Extend the leases of `held` (record id → lease token)."""
    if not held:
        return Renewed(frozenset(), frozenset())
    values = {"ids": sorted(held), "worker": worker_id, "lease": conf.lease_seconds(), "now": now}
    rows = execute(RENEW, values).fetchall()
    owned = {record_id: cancelled for record_id, token, cancelled in rows if held[record_id] == token}
    return Renewed(frozenset(owned), frozenset(record_id for record_id, cancelled in owned.items() if cancelled))


def settle(results: Results, *, now: datetime | None = None) -> Settled:
    """Write what became of claimed records, with their attempts, each only if its lease is still held.

    Plain successes are written in one statement; the others in one transaction, in which the `after_settle` hooks of
    their kinds run: whatever a hook or the database raises leaves all of those as they were. Settling the same results
    again does no harm. Of several results of one attempt (a handler that ended while it was being released over its
    head) the first one counts. What a person cancelled while it ran ends as cancelled, unless it succeeded.
    """
    results = _first_of_each_attempt(results)
    plain = [(record, outcome) for record, outcome in results if _is_plain(record, outcome)]
    settled = _settle_succeeded(plain, now) if plain else Settled(frozenset(), frozenset())
    if len(plain) < len(results):
        others = _settle_others([result for result in results if not _is_plain(*result)], now)
        settled = Settled(settled.written | others.written, settled.lost | others.lost)
    throttles.notify_of_room(record.lane for record, _ in results)
    return settled


def _settle_others(results: Results, now: datetime | None) -> Settled:
    with transaction.atomic():
        instant = now or database_clock()
        rows = execute(LOCK_IN_ID_ORDER, {"ids": [record.id for record, _ in results]}).fetchall()
        results = _ended_by_a_person(results, {record_id for record_id, cancelled, *_ in rows if cancelled})
        results = breakers.judge(results, {(record_id, token) for record_id, _, _, token in rows}, instant)
        exclusivity.lock_keys(results)
        inserted = {record_id: inserted_at for record_id, _, inserted_at, _ in rows}
        changes = exclusivity.gate(changes_of(results, inserted, instant), instant)
        attempts = set(execute(SETTLE, {**columns_of(changes), "now": now}).fetchall())
        # by attempt: one batch may hold the result of a lost attempt beside that of the record's current one
        written = [(record, outcome) for record, outcome in results if (record.id, record.attempt) in attempts]
        missing = [record for record, _ in results if (record.id, record.attempt) not in attempts]
        for record, outcome in written:
            if hook := registry.kind(record.kind).after_settle:
                hook(record, outcome, instant)
        exclusivity.open_gates([record for record, _ in written], instant)
        lost = _without_history(missing)
    for queue in {change.queue for record, change in changes if change.status == Status.READY}:
        notify(queue)
    return Settled(frozenset(record.id for record, _ in written), frozenset(_dropped(lost)))


def _is_plain(record: Claimed, outcome: Outcome) -> bool:
    """Whether nothing but its record and its attempt has to be written: the hot path of a queue."""
    if type(outcome) is not Succeeded or record.exclusive_key is not None or outcome.proves is not None:
        return False
    kind = registry.kind(record.kind)
    return kind.after_settle is None and kind.home_queue == record.queue


def _settle_succeeded(results: list[tuple[Claimed, Outcome]], now: datetime | None) -> Settled:
    """What `settle` does for plain successes, in one statement."""
    results.sort(key=lambda result: result[0].id)
    records = [record for record, _ in results]
    facts = [facts_as_json(outcome.facts) for _, outcome in results if isinstance(outcome, Succeeded)]
    tokens = {id(record.lease_token): str(record.lease_token) for record in records}
    values = {
        "id": _array([str(record.id) for record in records]),
        "attempt": _array([str(record.attempt) for record in records]),
        "worker_id": _array([str(record.worker_id) for record in records]),
        "lease_token": _array([tokens[id(record.lease_token)] for record in records]),
        "facts": facts if any(facts) else None,
        "now": now,
    }
    ids = frozenset(record.id for record in records)
    if execute(SETTLE_SUCCEEDED, values).rowcount == len(records):
        return Settled(ids, frozenset())
    lost = frozenset(_dropped(_without_history(records)))
    return Settled(ids - lost, lost)


def _array(numbers: list[str]) -> str:
    """A PostgreSQL array as text: a tenth of the time that adapting its elements one by one takes."""
    return "{" + ",".join(numbers) + "}"


def _first_of_each_attempt(results: Results) -> list[tuple[Claimed, Outcome]]:
    if len({record.id for record, _ in results}) == len(results):
        return list(results)
    firsts: dict[tuple[int, int, UUID], tuple[Claimed, Outcome]] = {}
    for record, outcome in results:
        firsts.setdefault((record.id, record.attempt, record.lease_token), (record, outcome))
    return list(firsts.values())


def _ended_by_a_person(results: Results, cancelled: set[int]) -> list[tuple[Claimed, Outcome]]:
    ended = Cancelled("cancelled while it ran")
    return [
        (record, ended if record.id in cancelled and not isinstance(outcome, Succeeded) else outcome)
        for record, outcome in results
    ]


def release_strays(*, worker_id: int, known: set[int]) -> int:
    """Give back what this worker owns without knowing it: claims whose COMMIT was lost on the way. Returns how many.

    To be called after a broken connection, with the ids of the records that the worker does run.
    """
    with transaction.atomic():
        strays = _all_claimed(STRAYS, {"worker": worker_id, "known": sorted(known)})
        lost = Released("its claim was committed, but the worker never heard of it")
        return len(settle([(record, lost) for record in strays]).written)


def rescue(*, limit: int = 1000, now: datetime | None = None) -> int:
    """Settle expired leases as failures, which goes through the retry policy. Returns how many.

    Nothing is rescued for one lease after a start of the database: an outage would rescue everybody.
    """
    with transaction.atomic():
        expired = _all_claimed(EXPIRED, {"limit": limit, "lease": conf.lease_seconds(), "now": now})
        lost = Failed("the worker was lost: it died, or could not reach the database for a whole lease", rescued=True)
        for record in expired:
            log.warning("rescue %s %s from worker %s", record.kind, record.subject, record.worker_id)
        return _settle_what_can_be([(record, lost) for record in expired], now)


def _settle_what_can_be(results: Results, now: datetime | None) -> int:
    """Settle in one go, or one by one: a hook that raises for one record must not hold up the others."""
    try:
        return len(settle(results, now=now).written)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("cannot settle %s records at once", len(results))
        halves = (results[: len(results) // 2], results[len(results) // 2 :]) if len(results) > 1 else ()
        return sum(_settle_what_can_be(half, now) for half in halves)


def _all_claimed(sql: str, values: dict[str, Any]) -> list[Claimed]:
    return [_claimed(row, worker_id, token) for *row, worker_id, token in execute(sql, values).fetchall()]


def _claimed(row: Sequence[Any], worker_id: int, token: UUID) -> Claimed:
    """A row of RECORD_COLUMNS, in the order of the fields of `Claimed`, with its lease."""
    payload = row[-1]
    return Claimed._make((*row[:-1], {} if payload == "{}" else json.loads(payload), worker_id, token))


def _dropped(lost: list[Claimed]) -> list[int]:
    for record in lost:
        log.warning("dropped the result of %s %s: lease lost (attempt %s)", record.kind, record.subject, record.attempt)
    return [record.id for record in lost]


def _without_history(missing: list[Claimed]) -> list[Claimed]:
    """Those of the unwritten whose lease was lost: the others' very attempt is in the history, so an earlier try of
    this settle went through. What a rescue wrote there is no such try."""
    if not missing:
        return []
    history = Attempt.objects.filter(record_id__in=[record.id for record in missing])
    known = set(history.exclude(outcome=AttemptOutcome.RESCUED).values_list("record_id", "number", "worker_id"))
    return [record for record in missing if (record.id, record.attempt, record.worker_id) not in known]
