"""The statements of the lease protocol (`jobs/claiming.py`): which index serves each, and why it has its shape; and
what they answer.

Status numbers are written into them, since the partial indexes are defined by them; values are parameters, cast, since
the server binds them. A claim waits for no lock, so the instant at which its statement arrived is the present; what
may wait for a lock reads the clock after it.
"""

from dataclasses import dataclass

from jobs.states import AttemptOutcome, Status

CLOCK = "COALESCE(%(now)s::timestamptz, clock_timestamp())"
ARRIVAL = "COALESCE(%(now)s::timestamptz, statement_timestamp())"

RECORD_COLUMNS = """
    id, kind, queue, subject, attempt, started_at, priority, due_day, rank_day, tried_at, expected_seconds, failures,
    first_failure_at, last_failure_at, closes_at, origin_id, retry_policy_id, exclusive_key, lane,
    payload"""
"""The fields of `Claimed` in their order, without those of the lease, which a claim knows."""

CLAIMED_COLUMNS = f"{RECORD_COLUMNS}, leased_by_id, lease_token"

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
        ORDER BY priority DESC, rank_day ASC NULLS FIRST, tried_at ASC NULLS FIRST,
                 expected_seconds ASC NULLS FIRST, id
        LIMIT %(limit)s::int
          FOR UPDATE SKIP LOCKED))
   AND NOT EXISTS (SELECT FROM jobs_pausedqueue WHERE name = %(queue)s::text)
   AND (SELECT lane
          FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND queue = %(queue)s::text AND lane > 0
         ORDER BY lane
         LIMIT 1) IS NULL
RETURNING {RECORD_COLUMNS}
"""

# What is leased runs. Naming the status would offer the lease index, which then meets each row with the whole array.
LEASED = "id = ANY(%(ids)s::bigint[]) AND leased_by_id = %(worker)s::bigint"

# By id: a row that was updated between this statement's snapshot and its lock has another ctid. The join is a loop
# over the primary key, since what is locked is estimated at a few rows.
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

LOCK_IN_ID_ORDER = """
SELECT id, cancel_requested_at IS NOT NULL, inserted_at, lease_token
  FROM jobs_backlogrecord
 WHERE id = ANY(%(ids)s::bigint[])
 ORDER BY id
   FOR UPDATE
"""

LOCK_WHAT_IS_FREE = f"{LOCK_IN_ID_ORDER}  SKIP LOCKED"

EXISTING = "SELECT id FROM jobs_backlogrecord WHERE id = ANY(%(ids)s::bigint[])"

HURRY = "SELECT set_config('lock_timeout', '200', true)"

# Driven from the results, in id order, onto the primary key: with plain equality on the fence the planner takes the
# partial lease index, which it estimates at one row, and goes quadratic.
FENCE = """
     WHERE b.id = r.id
       AND b.attempt IS NOT DISTINCT FROM r.attempt
       AND b.leased_by_id IS NOT DISTINCT FROM r.worker_id
       AND b.lease_token IS NOT DISTINCT FROM r.lease_token"""

NO_LEASE = "leased_by_id = NULL, lease_token = NULL, lease_expires_at = NULL"

# What `transition` makes of a plain success, for which no fact but the fence has to be sent.
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

LEASES = f"SELECT id, lease_expires_at FROM jobs_backlogrecord WHERE status = {Status.RUNNING}"

# Served by `backlog_lease_expires`.
EXPIRED = f"""
SELECT {CLAIMED_COLUMNS}
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND lease_expires_at <= {CLOCK}
   AND (%(ids)s::bigint[] IS NULL
        OR (id, lease_expires_at) IN (SELECT * FROM unnest(%(ids)s::bigint[], %(instants)s::timestamptz[])))
   AND id <> ALL(%(set_aside)s::bigint[])
   AND pg_postmaster_start_time() <= {CLOCK} - %(lease)s::float8 * interval '1 second'
 ORDER BY lease_expires_at
 LIMIT %(limit)s::int
   FOR UPDATE SKIP LOCKED
"""

# Served by `backlog_lease_expires`: what runs is few.
STRAYS = f"""
SELECT {CLAIMED_COLUMNS}
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND leased_by_id = %(worker)s::bigint AND id <> ALL(%(known)s::bigint[])
 ORDER BY id
"""

FREE_STRAYS = f"{STRAYS}  FOR UPDATE SKIP LOCKED"


class LeaseLost(Exception):
    """A result came from an attempt that no longer owns its record; it was dropped."""


@dataclass(frozen=True)
class Settled:
    """What a settle did: record ids whose attempt is in the history now, those whose lease was lost, and those that
    have to be settled again, since others hold what it needs."""

    written: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    locked: frozenset[int] = frozenset()

    def __or__(self, other: "Settled") -> "Settled":
        return Settled(self.written | other.written, self.lost | other.lost, self.locked | other.locked)

    def raise_if_lost(self) -> None:
        """Raises: LeaseLost when any result was dropped."""
        if self.lost:
            raise LeaseLost(f"the lease of record {', '.join(map(str, sorted(self.lost)))} was lost")


@dataclass(frozen=True)
class Renewed:
    """What a renewal found: ids whose lease was extended, those that another transaction holds locked and that are
    still the worker's, and those of both that a person cancelled. All others are lost."""

    owned: frozenset[int]
    unknown: frozenset[int]
    cancelled: frozenset[int]
