"""The statements of `jobs/throttles.py`: which index serves each, and why it has its shape."""

from jobs.clock import CLOCK
from jobs.outcomes import RECORD_COLUMNS
from jobs.states import Status

BOUND = 10_000
"""Of a lane's ready records no more than so many are counted, and of what waits at all."""

# One row at least: whether any throttle has a rate comes with what was claimed, so no claim has to ask for it.
CLAIM_BESIDE_THROTTLES = f"""
SELECT (SELECT id FROM jobs_throttle WHERE rate IS NOT NULL LIMIT 1) IS NOT NULL, named_throttles, tried,
       {RECORD_COLUMNS}
  FROM (SELECT) AS one
  LEFT JOIN jobs_claim_beside_throttles(
       %(queue)s::text, %(limit)s::int, %(worker)s::bigint, %(token)s::uuid, %(lease)s::float8, %(feeding)s::text[],
       %(feeds)s::text, %(tried)s::int[], %(now)s::timestamptz) AS claimed ON TRUE
  LEFT JOIN LATERAL (SELECT (claimed.record).*) AS record ON TRUE
"""

SECONDS_TO_TOKEN = f"(1 - jobs_tokens(t.tokens, t.tokens_at, t.rate, t.burst, {CLOCK})) / t.rate"

# One probe of `backlog_claim_order` a lane that lacks a token. A lane that lacks something else as well, as room in
# flight, may be named: its bucket fills, and then it is not.
NEXT_TOKEN = f"""
SELECT min(lacking.seconds)
  FROM jobs_lane l
 CROSS JOIN LATERAL (
       SELECT max({SECONDS_TO_TOKEN}) AS seconds
         FROM jobs_throttle t
        WHERE t.id = ANY(l.throttle_ids) AND t.rate IS NOT NULL AND t.max_in_flight > 0) AS lacking
 CROSS JOIN LATERAL (
       SELECT
         FROM jobs_backlogrecord b
        WHERE b.status = {Status.READY} AND b.queue = %(queue)s::text AND b.lane = l.id
        ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                 b.expected_seconds ASC NULLS FIRST, b.id
        LIMIT 1) AS first
 WHERE lacking.seconds > 0
"""

# What runs is served by `backlog_running_lane`; what is ready by `backlog_claim_order`, a probe a queue and lane, in
# its order, or a bitmap of all of them would be made; what waits by `backlog_waiting_until`, the first to be due.
# Materialized, or a join might count once for each of its rows.
LIVE = f"""
WITH RECURSIVE queue(name) AS (
    (SELECT queue
       FROM jobs_backlogrecord
      WHERE status = {Status.READY}
      ORDER BY queue
      LIMIT 1)
 UNION ALL
    SELECT (SELECT b.queue
              FROM jobs_backlogrecord b
             WHERE b.status = {Status.READY} AND b.queue > queue.name
             ORDER BY b.queue
             LIMIT 1)
      FROM queue
     WHERE queue.name IS NOT NULL
), running AS MATERIALIZED (
    SELECT lane, count(*) AS count
      FROM jobs_backlogrecord
     WHERE status = {Status.RUNNING} AND lane <> 0 AND queue <> ALL(%(feeding)s)
     GROUP BY lane
), ready AS MATERIALIZED (
    SELECT l.id AS lane, sum(counted.count) AS count, bool_or(counted.count > %(bound)s) AS more
      FROM jobs_lane l
     CROSS JOIN queue
     CROSS JOIN LATERAL (
           SELECT count(*) AS count
             FROM (SELECT
                     FROM jobs_backlogrecord b
                    WHERE b.status = {Status.READY} AND b.queue = queue.name AND b.lane = l.id
                    ORDER BY b.priority DESC, b.rank_day ASC NULLS FIRST, b.tried_at ASC NULLS FIRST,
                             b.expected_seconds ASC NULLS FIRST, b.id
                    LIMIT %(bound)s + 1) AS first) AS counted
     GROUP BY l.id
), first_waiting AS MATERIALIZED (
    SELECT lane
      FROM jobs_backlogrecord
     WHERE status = {Status.WAITING}
     ORDER BY run_after
     LIMIT %(bound)s + 1
), waiting AS MATERIALIZED (
    SELECT lane, count(*) AS count FROM first_waiting WHERE lane <> 0 GROUP BY lane
), counts AS (
    SELECT named.id, sum(running.count) AS in_flight, sum(ready.count) AS ready, sum(waiting.count) AS waiting,
           bool_or(ready.more) AS more_ready
      FROM jobs_lane l
     CROSS JOIN LATERAL unnest(l.throttle_ids) AS named(id)
      LEFT JOIN running ON running.lane = l.id
      LEFT JOIN ready ON ready.lane = l.id
      LEFT JOIN waiting ON waiting.lane = l.id
     GROUP BY named.id
)
SELECT t.*, jobs_tokens(t.tokens, t.tokens_at, t.rate, t.burst, {CLOCK}) AS tokens_now,
       COALESCE(counts.in_flight, 0)::int AS in_flight, COALESCE(counts.ready, 0)::int AS ready,
       COALESCE(counts.waiting, 0)::int AS waiting, COALESCE(counts.more_ready, FALSE) AS more_ready,
       (SELECT count(*) FROM first_waiting) > %(bound)s AS more_waiting
  FROM jobs_throttle t
  LEFT JOIN counts ON counts.id = t.id
 WHERE %(ids)s::bigint[] IS NULL OR t.id = ANY(%(ids)s)
 ORDER BY t.name
"""

# A claim locks throttles FOR UPDATE, so what puts thousands of records into a lane holds the lane, which no claim does.
HOLD_LANES = """
SELECT id FROM jobs_lane WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR KEY SHARE
"""

HOLD_LANES_OF_RECORDS = """
SELECT id
  FROM jobs_lane
 WHERE id = ANY(ARRAY(SELECT lane FROM jobs_backlogrecord WHERE id = ANY(%(ids)s::bigint[])))
 ORDER BY id
   FOR KEY SHARE
"""

# Only by who makes a lane, once in its life: claims of its throttles wait for that.
HOLD_THROTTLES = """
SELECT id FROM jobs_throttle WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR KEY SHARE
"""
