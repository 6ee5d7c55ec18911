"""The lease protocol: claim, renew, settle, rescue. Nobody else writes a running record.

Who is authoritative: the database. Its clock dates every lease; its row says who owns a record. A worker only
believes that it owns one, and is told otherwise when it writes.

1. *Claim.* One statement takes the first ready records of a queue in claim order, skipping what other claims hold
   locked, and turns them to `running` with a lease: `attempt + 1`, `leased_by`, a random `lease_token`,
   `lease_expires_at`. Killed before the commit: nothing happened. Killed after it: the lease expires.
2. *Renew.* The worker's heartbeat extends all its leases in one statement, on a connection of its own. A record that
   another transaction holds locked is skipped: *unknown*, not lost, as long as its row still names this lease, and
   tried again each second. What names another lease is lost, and stops. A worker that could not renew for two thirds
   of a lease stops its engines itself: the fence protects rows, not repositories.
3. *Settle.* The outcome of an attempt is written with its history row, in one transaction, and only if `id`,
   `attempt`, `leased_by` and `lease_token` are still those of the claim. Else the lease was lost: the result is
   dropped. Unless the history has this very attempt of this worker: then an earlier try of this same settle went
   through and only its answer was lost. What other transactions hold locked for too long is settled later, and holds
   up no other result.
4. *Rescue.* Any worker may settle an expired lease as a failure, once it has seen that lease unchanged for as long as
   an owner goes on without a renewal. It looks at `lease_expires_at`, never at the start: backups run for hours.

Rows are always locked in id order; throttles in id order before any record. `attempt` only ever grows, so a stale
attempt can never be taken for the current one. Lease arithmetic uses `clock_timestamp()`, read after the last lock:
`now()` is the start of the transaction. Tests inject `now`.
"""

import json
import logging
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from jobs import breakers, conf, exclusivity, throttles
from jobs.clock import boot_seconds, database_clock
from jobs.database_errors import is_away, is_busy
from jobs.formatting import facts_as_json
from jobs.handlers import registry
from jobs.lease_statements import (
    CLAIM,
    EXISTING,
    EXPIRED,
    FREE_STRAYS,
    HELD,
    HURRY,
    LEASES,
    LOCK_IN_ID_ORDER,
    LOCK_WHAT_IS_FREE,
    RENEW,
    SETTLE,
    SETTLE_SUCCEEDED,
    STRAYS,
    Renewed,
    Settled,
)
from jobs.models import Attempt
from jobs.order import in_claim_order
from jobs.outcomes import Cancelled, Claimed, Failed, Outcome, Released, Succeeded
from jobs.prepared import execute
from jobs.set_aside import SetAside, name_once
from jobs.states import AttemptOutcome, Status
from jobs.transitions import changes_of, columns_of
from jobs.wakeups import notify

log = logging.getLogger(__name__)

IN_PARTS_SECONDS = 1.0
"""Others wait meanwhile: the next results of a worker's settler, or the claims of one that rescues."""

_set_aside = SetAside()
"""What a rescue could not settle."""

Results = Sequence[tuple[Claimed, Outcome]]
Lease = tuple[int, datetime]
"""A record's id and the instant at which its lease expires, which every claim and every renewal changes."""


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
    """Extend the leases of `held` (record id → lease token). Waits for no lock."""
    values = {"ids": sorted(held), "worker": worker_id, "lease": conf.lease_seconds(), "now": now}
    rows = execute(RENEW, values).fetchall() if held else []
    skipped = held.keys() - {row[0] for row in rows}
    looked_at = execute(HELD, {"ids": sorted(skipped), "worker": worker_id}).fetchall() if skipped else []
    owned, unknown = ({row[0] for row in each if held[row[0]] == row[1]} for each in (rows, looked_at))
    cancelled = {row[0] for row in (*rows, *looked_at) if row[2]} & (owned | unknown)
    return Renewed(frozenset(owned), frozenset(unknown), frozenset(cancelled))


def settle(results: Results, *, now: datetime | None = None, skip_locked: bool = False) -> Settled:
    """Write what became of claimed records, with their attempts, each only if its lease is still held.

    Plain successes are written in one statement; the others in one transaction, in which the `after_settle` hooks of
    their kinds run: whatever a hook or the database raises leaves all of those as they were. Settling the same results
    again does no harm. Of several results of one attempt (a handler that ended while it was being released over its
    head) the first one counts. What a person cancelled while it ran ends as cancelled, unless it succeeded.
    `skip_locked`: leave out what other transactions hold locked, and wait for no lock beside for longer than a moment.
    """
    results = _first_of_each_attempt(results)
    plain = [] if skip_locked else [result for result in results if _is_plain(*result)]
    others = [result for result in results if not _is_plain(*result)] if plain else results
    settled = _settle_succeeded(plain, now) if plain else Settled()
    if others:
        settled |= _settle_others(others, now, skip_locked)
    throttles.notify_of_room({record.lane for record, _ in results})
    return settled


def _settle_others(results: Results, now: datetime | None, skip_locked: bool) -> Settled:
    with transaction.atomic():
        ids = [record.id for record, _ in results]
        rows = execute(LOCK_WHAT_IS_FREE if skip_locked else LOCK_IN_ID_ORDER, {"ids": ids}).fetchall()
        locked = _held_by_others(results, {row[0] for row in rows}) if skip_locked else frozenset()
        results = [result for result in results if result[0].id not in locked]
        results = _ended_by_a_person(results, {record_id for record_id, cancelled, *_ in rows if cancelled})
        leases = {(record_id, token) for record_id, _, _, token in rows}
        troubled = breakers.lock(results, leases)
        exclusivity.lock_keys(results)
        instant = now or database_clock()  # after the last lock: a period that began meanwhile has begun
        results = breakers.judge(results, leases, troubled, instant)
        inserted = {record_id: inserted_at for record_id, _, inserted_at, _ in rows}
        changes = exclusivity.gate(changes_of(results, inserted, instant), instant)
        attempts = set(execute(SETTLE, {**columns_of(changes), "now": now}).fetchall())
        # by attempt: one batch may hold the result of a lost attempt beside that of the current one
        written = [(record, outcome) for record, outcome in results if (record.id, record.attempt) in attempts]
        missing = [record for record, _ in results if (record.id, record.attempt) not in attempts]
        for record, outcome in written:
            if hook := registry.kind(record.kind).after_settle:
                hook(record, outcome, instant)
        exclusivity.open_gates([record.exclusive_key for record, _ in written], instant)
        lost = _without_history(missing)
    for queue in {change.queue for record, change in changes if change.status == Status.READY}:
        notify(queue)
    return Settled(frozenset(record.id for record, _ in written), frozenset(_dropped(lost)), locked)


def _held_by_others(results: Results, obtained: set[int]) -> frozenset[int]:
    """Of these results, those whose record was not `obtained` although it is there, or whose key others hold locked."""
    execute(HURRY, {})
    skipped = [record.id for record, _ in results if record.id not in obtained]
    held = {row[0] for row in execute(EXISTING, {"ids": skipped}).fetchall()} if skipped else set()
    keys = exclusivity.lock_keys([result for result in results if result[0].id not in held], skip_locked=True)
    return frozenset(held | {result[0].id for result in results if keys & exclusivity.keys_of(*result)})


def settle_in_parts(results: Results, *, now: datetime | None = None, until: float | None = None) -> Settled:
    """Settle what can be settled now, in halves if need be. What is isolated and cannot be written becomes a failure.

    `locked` is what has to be settled again; from `until` on (boot seconds; by default in IN_PARTS_SECONDS) nothing is
    halved any further that the database is too busy for. Raises: django.db.Error when the database is away.
    """
    until = until or boot_seconds() + IN_PARTS_SECONDS
    try:
        return settle(results, now=now, skip_locked=True)
    except Exception as error:
        if is_away(error):
            raise
        if is_busy(error) and (len(results) == 1 or boot_seconds() >= until):
            return Settled(locked=frozenset(record.id for record, _ in results))
        if len(results) == 1:
            return _settle_as_failed(results[0][0], error, now)
        half = len(results) // 2
        halves = (settle_in_parts(part, now=now, until=until) for part in (results[:half], results[half:]))
        return next(halves) | next(halves)


def _settle_as_failed(record: Claimed, error: Exception, now: datetime | None) -> Settled:
    attempt = f"attempt {record.attempt} of {record.kind} {record.subject}"
    name_once(f"cannot settle {attempt}: {error}", error)
    try:
        failed = Failed(f"its result could not be written: {error}")
        return settle([(record, failed)], now=now, skip_locked=True)
    except Exception as another:
        if is_away(another):
            raise
        if is_busy(another):
            return Settled(locked=frozenset({record.id}))
        # one record that cannot be settled must not end every worker that claims it; its lease runs out
        name_once(f"cannot settle {attempt} at all, dropping its result", another)
        return Settled()


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


def release_strays(*, worker_id: int, known: set[int]) -> bool:
    """Give back what this worker owns without knowing it: claims whose COMMIT was lost on the way.

    To be called after a broken connection, with the ids of the records that the worker does run, until it returns that
    none is left: one that another transaction holds locked is not waited for.
    """
    values = {"worker": worker_id, "known": sorted(known)}
    lost = Released("its claim was committed, but the worker never heard of it")
    with transaction.atomic():
        if strays := _all_claimed(FREE_STRAYS, values):
            settle_in_parts([(record, lost) for record in strays])
        return not execute(STRAYS, values).fetchall()


def leases() -> list[Lease]:
    """All leases of the fleet, also those that have expired."""
    return execute(LEASES, {}).fetchall()


def rescue(*, limit: int = 1000, unchanged: Collection[Lease] | None = None, now: datetime | None = None) -> int:
    """Settle expired leases as failures, by the retry policy. Returns how many.

    Nothing is rescued for one lease after a start of the database: an outage would rescue everybody. `unchanged`: only
    these leases, if they still are as they were; None: all, as far as the database's clock can be trusted. What cannot
    be settled is set aside for a minute.
    """
    instant = now or database_clock()
    lost = Failed("the worker was lost: it died, or could not reach the database for a whole lease", rescued=True)
    ids, instants = (None, None) if unchanged is None else ([each[at] for each in unchanged] for at in (0, 1))
    values = {
        "limit": limit, "lease": conf.lease_seconds(), "ids": ids, "instants": instants, "now": now,
        "set_aside": _set_aside.at(instant),
    }  # fmt: skip
    with transaction.atomic():
        expired = _all_claimed(EXPIRED, values)
        settled = settle_in_parts([(record, lost) for record in expired], now=now) if expired else Settled()
    _set_aside.put({record.id for record in expired} - settled.written - settled.lost - settled.locked, instant)
    for record in expired:
        if record.id in settled.written:
            log.warning("rescued %s %s from worker %s", record.kind, record.subject, record.worker_id)
    return len(settled.written)


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
