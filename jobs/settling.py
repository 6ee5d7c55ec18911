"""Writes the outcomes of claimed records: step 3 of the lease protocol (`jobs/claiming.py`)."""

import logging
from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from jobs import breakers, exclusivity, wakeups
from jobs.clock import ARRIVAL, CLOCK, boot_seconds, database_clock
from jobs.database_errors import is_away, is_busy
from jobs.handlers import registry
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Cancelled, ClaimedRecord, Failed, Outcome, Result, Results, Succeeded
from jobs.prepared_statements import array, execute, facts_as_json
from jobs.set_aside import name_once
from jobs.states import AttemptOutcome, Status
from jobs.transitions import changes_of, columns_of

log = logging.getLogger(__name__)

IN_PARTS_SECONDS = 1.0
"""Seconds for which others may wait: the next results of a worker's settler, or the claims of one that rescues."""


LOCK_IN_ID_ORDER = """
SELECT id, cancel_requested_at IS NOT NULL, inserted_at, lease_token
  FROM jobs_backlogrecord
 WHERE id = ANY(%(ids)s::bigint[])
 ORDER BY id
   FOR UPDATE
"""

LOCK_WHAT_IS_FREE = f"{LOCK_IN_ID_ORDER}  SKIP LOCKED"

# Until the end of the transaction no statement waits longer than 200 ms for a lock.
HURRY = "SELECT set_config('lock_timeout', '200', true)"

# Driven from the results, in id order, onto the primary key: with plain equality on the fence the planner takes the
# partial lease index, which it estimates at one row, and goes quadratic.
FENCE = """
     WHERE b.id = r.id
       AND b.attempt IS NOT DISTINCT FROM r.attempt
       AND b.leased_by_id IS NOT DISTINCT FROM r.worker_id
       AND b.lease_token IS NOT DISTINCT FROM r.lease_token"""

NO_LEASE = "leased_by_id = NULL, lease_token = NULL, lease_expires_at = NULL"

# The `transition` of a plain success, for which only the fence has to be sent.
SETTLE_SUCCEEDED = f"""
WITH result AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::bigint[], %(attempt)s::int[], %(worker_id)s::bigint[], %(lease_token)s::uuid[],
                  %(facts)s::text[])
        AS r(id, attempt, worker_id, lease_token, facts)
), settled AS (
    UPDATE jobs_backlogrecord b
       SET status = {Status.SUCCEEDED}, run_after = {ARRIVAL}, finished_at = {ARRIVAL}, {NO_LEASE}
      FROM result r{FENCE}
    RETURNING r.id, r.attempt, b.queue, r.worker_id, b.started_at, r.facts
)
INSERT INTO jobs_attempt (record_id, number, queue, worker_id, started_at, ended_at, outcome, error, facts)
SELECT id, attempt, queue, worker_id, started_at, GREATEST({ARRIVAL}, started_at), {AttemptOutcome.SUCCEEDED}, '',
       facts::jsonb
  FROM settled
"""

SETTLE = f"""
WITH result AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::bigint[], %(attempt)s::int[], %(worker_id)s::bigint[], %(lease_token)s::uuid[],
                  %(from_queue)s::text[], %(status)s::smallint[], %(queue)s::text[], %(run_after)s::timestamptz[],
                  %(priority)s::int[], %(rank_day)s::date[], %(tried_at)s::timestamptz[], %(failures)s::int[],
                  %(first_failure_at)s::timestamptz[], %(last_failure_at)s::timestamptz[],
                  %(attempt_outcome)s::smallint[], %(error)s::text[], %(exclusive_key)s::text[],
                  %(waiting_for)s::smallint[], %(finished_at)s::timestamptz[], %(breaker_id)s::bigint[],
                  %(facts)s::text[])
        AS r(id, attempt, worker_id, lease_token, from_queue, status, queue, run_after, priority, rank_day, tried_at,
             failures, first_failure_at, last_failure_at, attempt_outcome, error, exclusive_key, waiting_for,
             finished_at, breaker_id, facts)
), settled AS (
    UPDATE jobs_backlogrecord b
       SET status = r.status, queue = r.queue, run_after = r.run_after, priority = r.priority,
           rank_day = r.rank_day, tried_at = r.tried_at, failures = r.failures,
           first_failure_at = r.first_failure_at, last_failure_at = r.last_failure_at,
           last_error = CASE WHEN r.error <> '' THEN r.error ELSE b.last_error END,
           exclusive_key = r.exclusive_key, waiting_for = r.waiting_for, finished_at = r.finished_at,
           breaker_id = r.breaker_id, {NO_LEASE}
      FROM result r{FENCE}
    RETURNING r.id, r.attempt, r.from_queue, r.worker_id, b.started_at, r.attempt_outcome, r.error, r.facts
)
INSERT INTO jobs_attempt (record_id, number, queue, worker_id, started_at, ended_at, outcome, error, facts)
SELECT id, attempt, from_queue, worker_id, started_at, GREATEST({CLOCK}, started_at), attempt_outcome, error,
       facts::jsonb
  FROM settled
RETURNING record_id, number
"""


class LeaseLost(Exception):
    """A result came from an attempt that no longer owns its record; it was dropped."""


@dataclass(frozen=True)
class SettleResult:
    """The result of a settle: record ids whose attempt is in the history now, those whose lease was lost, and those
    that must be settled again, since others hold their rows.
    """

    written: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    locked: frozenset[int] = frozenset()

    def __or__(self, other: "SettleResult") -> "SettleResult":
        return SettleResult(self.written | other.written, self.lost | other.lost, self.locked | other.locked)

    def raise_if_lost(self) -> None:
        """Raises: LeaseLost when any result was dropped."""
        if self.lost:
            raise LeaseLost(f"the lease of record {', '.join(map(str, sorted(self.lost)))} was lost")


def settle(results: Results, *, now: datetime | None = None, skip_locked: bool = False) -> SettleResult:
    """Write the outcomes of claimed records, with their attempts, each only if its lease is still held.

    Plain successes are written in one statement; the others in one transaction, in which the `after_settle` hooks of
    their kinds run: an exception of a hook or the database leaves all of those as they were. Settling the same results
    again does no harm. If an attempt has several results (its handler ended while it was already being released), the
    first one counts. A record that a user cancelled while it ran ends as cancelled, unless it succeeded.
    `skip_locked`: leave out records that other transactions hold locked, and wait for no other lock longer than a
    moment.
    """
    results = _first_of_each_attempt(results)
    plain = [] if skip_locked else [result for result in results if _is_plain(*result)]
    others = [result for result in results if not _is_plain(*result)] if plain else results
    settled = _settle_succeeded(plain, now) if plain else SettleResult()
    if others:
        settled |= _settle_others(others, now, skip_locked)
    wakeups.notify_of_room({record.lane for record, _ in results})
    return settled


def _settle_others(results: Results, now: datetime | None, skip_locked: bool) -> SettleResult:
    with transaction.atomic():
        ids = [record.id for record, _ in results]
        rows = execute(LOCK_WHAT_IS_FREE if skip_locked else LOCK_IN_ID_ORDER, {"ids": ids}).fetchall()
        locked = _held_by_others(results, {row[0] for row in rows}) if skip_locked else frozenset()
        results = [result for result in results if result[0].id not in locked]
        results = _cancelled_by_a_user(results, {record_id for record_id, cancelled, *_ in rows if cancelled})
        leases = {(record_id, token) for record_id, _, _, token in rows}
        troubled = breakers.lock(results, leases)
        exclusivity.lock_keys(results)
        instant = now or database_clock()  # after the last lock: a period that began in the meantime has begun
        results = breakers.judge(results, leases, troubled, instant)
        inserted = {record_id: inserted_at for record_id, _, inserted_at, _ in rows}
        changes = exclusivity.gate(changes_of(results, inserted, instant), leases, instant)
        attempts = set(execute(SETTLE, {**columns_of(changes), "now": now}).fetchall())
        written = [result for result in results if _is_written(result[0], attempts, leases)]
        missing = [record for record, _ in results if not _is_written(record, attempts, leases)]
        for kind in dict.fromkeys(record.kind for record, _ in written):
            if hook := registry.kind(kind).after_settle:
                hook([result for result in written if result[0].kind == kind], instant)
        exclusivity.open_gates([record.exclusive_key for record, _ in written], instant)
        lost = frozenset(record.id for record in _lost_among(missing))
    for queue in {change.queue for record, change in changes if change.status == Status.READY}:
        wakeups.notify(queue)
    for ended in {change.attempt_outcome for _, change in changes}:
        alike = [record for record, change in changes if change.attempt_outcome is ended]
        _report_ends([record for record in alike if _is_written(record, attempts, leases)], ended, instant)
    return SettleResult(frozenset(record.id for record, _ in written), lost, locked)


def _is_written(record: ClaimedRecord, attempts: Set[tuple[int, int]], leases: Set[tuple[int, UUID]]) -> bool:
    """True if this very run is in the history now: a batch may hold the result of a lost one as well, which has the
    same attempt number if the database has failed over to a replica that did not know it.
    """
    return (record.id, record.attempt) in attempts and (record.id, record.lease_token) in leases


def _held_by_others(results: Results, obtained: set[int]) -> frozenset[int]:
    """The results whose record was not `obtained` although it exists, or whose key others hold locked."""
    execute(HURRY, {})
    skipped = [record.id for record, _ in results if record.id not in obtained]
    held = set(BacklogRecord.objects.filter(pk__in=skipped).values_list("pk", flat=True))
    keys = exclusivity.lock_keys([result for result in results if result[0].id not in held], skip_locked=True)
    return frozenset(held | {result[0].id for result in results if keys & exclusivity.keys_of(*result)})


def settle_in_parts(
    results: Results, *, now: datetime | None = None, until: float | None = None, is_last_try: bool = False
) -> SettleResult:
    """Settle the results that can be settled now, in halves if need be. One that is isolated and cannot be written
    becomes a failure, or nothing if `is_last_try`.

    `locked`: those to settle again; from `until` on (boot seconds; by default in IN_PARTS_SECONDS) no batch is halved
    any further for which the database is too busy. Raises: django.db.Error if the database is down.
    """
    until = until or boot_seconds() + IN_PARTS_SECONDS
    try:
        return settle(results, now=now, skip_locked=True)
    except Exception as error:
        if is_away(error):
            raise
        if is_busy(error) and (len(results) == 1 or boot_seconds() >= until):
            return SettleResult(locked=frozenset(record.id for record, _ in results))
        if len(results) > 1:
            half = len(results) // 2
            halves = (settle_in_parts(part, now=now, until=until) for part in (results[:half], results[half:]))
            return next(halves) | next(halves)
        record = results[0][0]
        attempt = f"attempt {record.attempt} of {record.kind} {record.subject}"
        if is_last_try:
            # one record that cannot be settled must not end every worker that claims it; its lease runs out
            name_once(f"cannot settle {attempt} at all, dropping its result", error)
            return SettleResult()
        name_once(f"cannot settle {attempt}: {error}", error)
        failed = Failed(f"its result could not be written: {error}")
        return settle_in_parts([(record, failed)], now=now, until=until, is_last_try=True)


def _is_plain(record: ClaimedRecord, outcome: Outcome) -> bool:
    """True if only its record and its attempt must be written: the hot path of a queue."""
    if type(outcome) is not Succeeded or record.exclusive_key is not None or outcome.proves is not None:
        return False
    kind = registry.kind(record.kind)
    return kind.after_settle is None and kind.home_queue == record.queue


def _settle_succeeded(results: list[Result], now: datetime | None) -> SettleResult:
    """The work of `settle` for plain successes, in one statement."""
    results.sort(key=lambda result: result[0].id)
    records = [record for record, _ in results]
    facts = [facts_as_json(outcome.facts) for _, outcome in results if isinstance(outcome, Succeeded)]
    tokens = {id(record.lease_token): str(record.lease_token) for record in records}
    values = {
        "id": array([record.id for record in records]),
        "attempt": array([record.attempt for record in records]),
        "worker_id": array([record.worker_id for record in records]),
        "lease_token": array([tokens[id(record.lease_token)] for record in records]),
        "facts": facts if any(facts) else None,
        "now": now,
    }
    lost = _lost_among(records) if execute(SETTLE_SUCCEEDED, values).rowcount != len(records) else []
    dropped = {(record.id, record.lease_token) for record in lost}
    kept = [record for record in records if (record.id, record.lease_token) not in dropped]
    _report_ends(kept, AttemptOutcome.SUCCEEDED, now)
    return SettleResult(frozenset(record.id for record in kept), frozenset(record.id for record in lost))


def _report_ends(records: list[ClaimedRecord], outcome: AttemptOutcome, ended_at: datetime | None) -> None:
    for each in registry.at_end:
        each(records, outcome, ended_at)


def _first_of_each_attempt(results: Results) -> list[Result]:
    if len({record.id for record, _ in results}) == len(results):
        return list(results)
    firsts: dict[tuple[int, int, UUID], tuple[ClaimedRecord, Outcome]] = {}
    for record, outcome in results:
        firsts.setdefault((record.id, record.attempt, record.lease_token), (record, outcome))
    return list(firsts.values())


def _cancelled_by_a_user(results: Results, cancelled: set[int]) -> list[Result]:
    ended = Cancelled("cancelled while it ran")
    return [
        (record, ended if record.id in cancelled and not isinstance(outcome, Succeeded) else outcome)
        for record, outcome in results
    ]


def _lost_among(unwritten: list[ClaimedRecord]) -> list[ClaimedRecord]:
    """Claims whose lease was lost: their results are dropped. The others' very run is in the history, so an earlier
    try of this settle went through. A run written by a rescue is not such a try, and neither is one that was claimed at
    another instant: after a failover, one worker may get the same record under the same attempt number again.
    """
    if not unwritten:
        return []
    history = Attempt.objects.filter(record_id__in=[record.id for record in unwritten])
    history = history.exclude(outcome=AttemptOutcome.RESCUED)
    known = set(history.values_list("record_id", "number", "worker_id", "started_at"))
    lost = [each for each in unwritten if (each.id, each.attempt, each.worker_id, each.started_at) not in known]
    for record in lost:
        log.warning("dropped the result of %s %s: lease lost (attempt %s)", record.kind, record.subject, record.attempt)
    return lost
