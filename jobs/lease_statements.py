"""The statements of the lease protocol (`jobs/claiming.py`): which index serves each, and why it has its shape.

Status numbers are written into them, since the partial indexes are defined by them; values are parameters.
"""

from jobs.states import Status

CLOCK = "COALESCE(%(now)s::timestamptz, clock_timestamp())"

CLAIMED_COLUMNS = """
    id, kind, queue, subject, payload, attempt, leased_by_id AS worker_id, lease_token, started_at, priority, due_day,
    rank_day, tried_at, expected_seconds, failures, first_failure_at, last_failure_at, closes_at, schedule_id,
    retry_policy_id, exclusive_key"""

# Served by `backlog_claim_order`: one queue and one lane, so the index yields the order and nothing is sorted.
# `ctid = ANY(ARRAY(…))` and not a join: a join can flip to a hash join with a sequential scan.
CLAIM = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.RUNNING}, attempt = attempt + 1, started_at = {CLOCK}, leased_by_id = %(worker)s,
       lease_token = %(token)s, lease_expires_at = {CLOCK} + %(lease)s * interval '1 second'
 WHERE status = {Status.READY}
   AND ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_backlogrecord
        WHERE status = {Status.READY} AND queue = %(queue)s AND lane = 0
          AND (closes_at IS NULL OR closes_at > {CLOCK})
        ORDER BY priority DESC, rank_day ASC NULLS FIRST, tried_at ASC NULLS FIRST,
                 expected_seconds ASC NULLS FIRST, id
        LIMIT %(limit)s
          FOR UPDATE SKIP LOCKED))
RETURNING {CLAIMED_COLUMNS}
"""

# For records that a caller holds locked already: what the throttles let through.
CLAIM_LOCKED = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.RUNNING}, attempt = attempt + 1, started_at = {CLOCK}, leased_by_id = %(worker)s,
       lease_token = %(token)s, lease_expires_at = {CLOCK} + %(lease)s * interval '1 second'
 WHERE id = ANY(%(ids)s)
RETURNING {CLAIMED_COLUMNS}
"""

RENEW = f"""
UPDATE jobs_backlogrecord
   SET lease_expires_at = {CLOCK} + %(lease)s * interval '1 second'
 WHERE ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_backlogrecord
        WHERE id = ANY(%(ids)s) AND status = {Status.RUNNING} AND leased_by_id = %(worker)s
        ORDER BY id
          FOR UPDATE))
RETURNING id, lease_token
"""

LOCK_IN_ID_ORDER = "SELECT id FROM jobs_backlogrecord WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE"

# Driven from the results onto the primary key: with plain equality on the fence the planner takes the partial lease
# index, which it estimates at one row, and goes quadratic.
SETTLE = f"""
WITH result AS MATERIALIZED (
    SELECT *
      FROM unnest(%(id)s::bigint[], %(attempt)s::int[], %(worker_id)s::bigint[], %(lease_token)s::uuid[],
                  %(from_queue)s::text[], %(status)s::smallint[], %(queue)s::text[], %(run_after)s::timestamptz[],
                  %(priority)s::int[], %(rank_day)s::date[], %(tried_at)s::timestamptz[], %(failures)s::int[],
                  %(first_failure_at)s::timestamptz[], %(last_failure_at)s::timestamptz[],
                  %(attempt_outcome)s::smallint[], %(error)s::text[], %(exclusive_key)s::text[],
                  %(waiting_for)s::smallint[], %(finished_at)s::timestamptz[])
        AS r(id, attempt, worker_id, lease_token, from_queue, status, queue, run_after, priority, rank_day, tried_at,
             failures, first_failure_at, last_failure_at, attempt_outcome, error, exclusive_key, waiting_for,
             finished_at)
), settled AS (
    UPDATE jobs_backlogrecord b
       SET status = r.status, queue = r.queue, run_after = r.run_after, priority = r.priority,
           rank_day = r.rank_day, tried_at = r.tried_at, failures = r.failures,
           first_failure_at = r.first_failure_at, last_failure_at = r.last_failure_at,
           last_error = CASE WHEN r.error <> '' THEN r.error ELSE b.last_error END,
           exclusive_key = r.exclusive_key, waiting_for = r.waiting_for, finished_at = r.finished_at,
           leased_by_id = NULL, lease_token = NULL, lease_expires_at = NULL
      FROM result r
     WHERE b.id = r.id
       AND b.attempt IS NOT DISTINCT FROM r.attempt
       AND b.leased_by_id IS NOT DISTINCT FROM r.worker_id
       AND b.lease_token IS NOT DISTINCT FROM r.lease_token
    RETURNING r.id, r.attempt, r.from_queue, r.worker_id, b.started_at, r.attempt_outcome, r.error
)
INSERT INTO jobs_attempt (record_id, number, queue, worker_id, started_at, ended_at, outcome, error)
SELECT id, attempt, from_queue, worker_id, started_at, GREATEST({CLOCK}, started_at), attempt_outcome, error
  FROM settled
RETURNING record_id, number
"""

# Served by `backlog_lease_expires`.
EXPIRED = f"""
SELECT {CLAIMED_COLUMNS}
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND lease_expires_at <= {CLOCK}
   AND pg_postmaster_start_time() <= {CLOCK} - %(lease)s * interval '1 second'
 ORDER BY lease_expires_at
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED
"""

# Served by `backlog_lease_expires`: what runs is few.
STRAYS = f"""
SELECT {CLAIMED_COLUMNS}
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND leased_by_id = %(worker)s AND id <> ALL(%(known)s::bigint[])
 ORDER BY id
   FOR UPDATE
"""
