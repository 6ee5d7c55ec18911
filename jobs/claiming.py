"""The lease protocol: claim, renew, settle, rescue. Nothing else writes a running record.

Who is authoritative: the database. Its clock dates every lease; its row says who owns a record. A worker only
believes that it owns one, and learns otherwise when it writes.

1. *Claim.* One statement takes the first ready records of a queue in claim order, skipping those that other claims hold
   locked, and turns them to `running` with a lease: `attempt + 1`, `leased_by`, a random `lease_token`,
   `lease_expires_at`. Killed before the commit: nothing happened. Killed after it: the lease expires.
2. *Renew.* The worker's heartbeat extends all its leases in one statement, on a separate connection. A record that
   another transaction holds locked is skipped: *unknown*, not lost, as long as its row still names this lease, and
   tried again each second. A record that names another lease is lost, and stops. A worker that could not renew for two
   thirds of a lease stops its engines itself: the fence protects rows, not repositories.
3. *Settle.* The outcome of an attempt is written with its history row, in one transaction, and only if `id`,
   `attempt`, `leased_by` and `lease_token` are still those of the claim. Otherwise the lease was lost, and the result
   is dropped, unless the history has this very attempt of this worker: then an earlier try of this settle went through
   and only its answer was lost. A record that other transactions hold locked for too long is settled later, and delays
   no other result.
4. *Rescue.* Any worker may settle an expired lease as a failure, once it has seen that lease unchanged for as long as
   an owner continues without a renewal. It looks at `lease_expires_at`, never at the start: backups run for hours.

Rows are always locked in id order; throttles in id order before any record. `attempt` only ever grows, so a stale
attempt can never be taken for the current one. Lease arithmetic uses `clock_timestamp()`, read after the last lock:
`now()` is the start of the transaction. Tests inject `now`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from jobs import conf, order, priorities, throttles
from jobs.claimed_rows import UNREADABLE, all_claimed, claimed
from jobs.clock import ARRIVAL, CLOCK
from jobs.outcomes import RECORD_COLUMNS, ClaimedRecord
from jobs.prepared_statements import execute
from jobs.states import Status

# Served by `backlog_claim_order`: one queue and one lane, so the index yields the order and nothing is sorted.
# `ctid = ANY(ARRAY(…))` and not a join: a join can flip to a hash join with a sequential scan. With a throttled record
# ready the order is one across lanes, and `jobs/throttles.py` claims. That is asked as the first of an ordered scan:
# with EXISTS the planner may read the whole table for a row that is not there.
CLAIM = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.RUNNING}, attempt = attempt + 1, started_at = {ARRIVAL}, leased_by_id = %(worker)s::bigint,
       lease_token = %(token)s::uuid, lease_expires_at = {ARRIVAL} + %(lease)s::float8 * interval '1 second'
 WHERE status = {Status.READY}
   AND ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_backlogrecord
        WHERE status = {Status.READY} AND queue = %(queue)s::text AND lane = 0
          AND (closes_at IS NULL OR closes_at > {ARRIVAL})
        ORDER BY {order.IN_SQL}
        LIMIT %(limit)s::int
          FOR UPDATE SKIP LOCKED))
   AND NOT EXISTS (SELECT FROM jobs_pausedqueue WHERE name = %(queue)s::text)
   AND NOT EXISTS (SELECT FROM jobs_hold WHERE id = 1)
   AND (SELECT lane
          FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND queue = %(queue)s::text AND lane > 0
         ORDER BY lane
         LIMIT 1) IS NULL
RETURNING {RECORD_COLUMNS}
"""

# The same for woken records, of all lanes: a question takes no room of a throttle. One descent of
# `backlog_claim_order` a lane.
CLAIM_WOKEN = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.RUNNING}, attempt = attempt + 1, started_at = {ARRIVAL}, leased_by_id = %(worker)s::bigint,
       lease_token = %(token)s::uuid, lease_expires_at = {ARRIVAL} + %(lease)s::float8 * interval '1 second'
 WHERE status = {Status.READY}
   AND ctid = ANY(ARRAY(
       SELECT woken.ctid
         FROM (SELECT 0 AS id UNION ALL SELECT id FROM jobs_lane) AS l
        CROSS JOIN LATERAL (
              SELECT ctid
                FROM jobs_backlogrecord
               WHERE status = {Status.READY} AND queue = %(queue)s::text AND lane = l.id
                 AND priority >= {priorities.WOKEN_FROM} AND (closes_at IS NULL OR closes_at > {ARRIVAL})
               ORDER BY {order.IN_SQL}
               LIMIT %(limit)s::int
                 FOR UPDATE SKIP LOCKED) AS woken
        LIMIT %(limit)s::int))
   AND NOT EXISTS (SELECT FROM jobs_pausedqueue WHERE name = %(queue)s::text)
   AND NOT EXISTS (SELECT FROM jobs_hold WHERE id = 1)
RETURNING {RECORD_COLUMNS}
"""

# A leased record runs. Naming the status would offer the lease index, which then compares each row with the whole
# array.
LEASED = "id = ANY(%(ids)s::bigint[]) AND leased_by_id = %(worker)s::bigint"

# By id: a row that was updated between this statement's snapshot and its lock has another ctid. The join is a loop
# over the primary key, since the locked rows are estimated at a few.
RENEW = f"""
WITH held AS MATERIALIZED (
    SELECT id
      FROM jobs_backlogrecord
     WHERE {LEASED}
     ORDER BY id
       FOR UPDATE SKIP LOCKED
)
UPDATE jobs_backlogrecord b
   SET lease_expires_at = {CLOCK} + %(lease)s::float8 * interval '1 second'
  FROM held
 WHERE b.id = held.id
RETURNING b.id, b.lease_token, b.cancel_requested_at IS NOT NULL
"""

HELD = f"""
SELECT id, lease_token, cancel_requested_at IS NOT NULL
  FROM jobs_backlogrecord
 WHERE {LEASED}
"""


@dataclass(frozen=True)
class RenewalResult:
    """The results of a renewal: ids whose lease was extended, ids that another transaction holds locked and that are
    still the worker's, and those of both that a user cancelled. All others are lost.
    """

    owned: frozenset[int]
    unknown: frozenset[int]
    cancelled: frozenset[int]


def claim(queue: str, *, worker_id: int, limit: int, now: datetime | None = None) -> list[ClaimedRecord]:
    """Take up to `limit` ready records of `queue`, in claim order, with a lease each. From a paused queue, and
    while everything is held: none.

    Returns them in claim order; without those that cannot be read, which have failed. `now` (aware) replaces the
    database's clock in tests.
    """
    if limit <= 0:
        return []
    token = uuid4()
    lease = {"worker": worker_id, "token": token, "lease": conf.lease_seconds(), "now": now}
    values = {"queue": queue, "limit": limit, **lease}
    rows = [] if throttles.named_by_ready(queue) else execute(CLAIM, values).fetchall()
    rows = rows or throttles.claim_beside_throttles(values)
    return _readable(rows, worker_id, token)


def claim_woken(queue: str, *, worker_id: int, limit: int, now: datetime | None = None) -> list[ClaimedRecord]:
    """Claim as `claim` does, but only woken records, regardless of their throttles, since they are only asked."""
    token = uuid4()
    values = {"queue": queue, "limit": limit, "worker": worker_id, "token": token, "lease": conf.lease_seconds()}
    return _readable(execute(CLAIM_WOKEN, {**values, "now": now}).fetchall(), worker_id, token)


def _readable(rows: list[tuple[Any, ...]], worker_id: int, token: UUID) -> list[ClaimedRecord]:
    try:
        found = [claimed(row, worker_id, token) for row in rows]
    except UNREADABLE:
        found = all_claimed((*row, worker_id, token) for row in rows)
    return order.in_claim_order(found)


def renew(held: dict[int, UUID], *, worker_id: int, now: datetime | None = None) -> RenewalResult:
    """Extend the leases of `held` (record id → lease token). Waits for no lock."""
    values = {"ids": sorted(held), "worker": worker_id, "lease": conf.lease_seconds(), "now": now}
    rows = execute(RENEW, values).fetchall() if held else []
    skipped = held.keys() - {row[0] for row in rows}
    looked_at = execute(HELD, {"ids": sorted(skipped), "worker": worker_id}).fetchall() if skipped else []
    owned, unknown = ({row[0] for row in each if held[row[0]] == row[1]} for each in (rows, looked_at))
    cancelled = {row[0] for row in (*rows, *looked_at) if row[2]} & (owned | unknown)
    return RenewalResult(frozenset(owned), frozenset(unknown), frozenset(cancelled))
