"""The queries behind `operations.backlog.summary`, each with a bound, so that none reads a whole backlog.

An exact `count(*) … GROUP BY queue, status` took 150 to 220 ms with a million ready records, and grows with the history
that is kept. Each of these looks at 50,000 rows at the most, at 10 to 50 ms, and reports when there were more.
"""

from jobs.states import UNFINISHED, Status, WaitingFor
from operations.skip_scans import skip_scan

BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"
"""Settings without which, if the index has another order than the table, the planner would rather read the whole table
and sort it, which takes four times as long.
"""

AS_BEFORE = "SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL enable_sort TO DEFAULT"

# Served by `backlog_claim_order`.
QUEUES_WITH_READY = skip_scan("queue", f"status = {Status.READY}")

# Served by `one_unfinished_record_per_subject`.
UNFINISHED_KINDS = skip_scan("kind", f"status IN {tuple(map(int, UNFINISHED))}")

# Served by `backlog_claim_order`, in its order.
READY = f"""
SELECT wanted.queue, counted.*
  FROM unnest(%(queues)s::text[]) AS wanted(queue)
 CROSS JOIN LATERAL (
       SELECT count(*), min(run_after)
         FROM (SELECT run_after
                 FROM jobs_backlogrecord
                WHERE status = {Status.READY} AND queue = wanted.queue
                ORDER BY lane, priority DESC, rank_day ASC NULLS FIRST, tried_at ASC NULLS FIRST,
                         expected_seconds ASC NULLS FIRST, id
                LIMIT %(bound)s::int + 1) AS first) AS counted
"""

# Served by `backlog_waiting_until`: due ones first, so the oldest is always among them.
WAITING = f"""
SELECT queue, count(*), min(run_after),
       count(*) FILTER (WHERE waiting_for IN ({WaitingFor.BACKOFF}, {WaitingFor.SWEEP}))
  FROM (SELECT queue, run_after, waiting_for
          FROM jobs_backlogrecord
         WHERE status = {Status.WAITING}
         ORDER BY run_after
         LIMIT %(bound)s::int + 1) AS first
 GROUP BY queue
"""

# Served by `backlog_lease_expires`: running records are few.
RUNNING = f"""
SELECT queue, leased_by_id, count(*)
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING}
 GROUP BY queue, leased_by_id
"""

# Served by `backlog_done`, the latest first.
FINISHED = """
SELECT queue, status, count(*),
       count(*) FILTER (WHERE finished_at > %(now)s::timestamptz - interval '1 minute'),
       count(*) FILTER (WHERE finished_at > %(now)s::timestamptz - interval '1 hour'),
       min(finished_at)
  FROM (SELECT queue, status, finished_at
          FROM jobs_backlogrecord
         WHERE finished_at IS NOT NULL
         ORDER BY finished_at DESC
         LIMIT %(bound)s::int + 1) AS latest
 GROUP BY queue, status
"""
