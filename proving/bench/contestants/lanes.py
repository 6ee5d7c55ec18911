"""Claims of LIMIT records among running ones, all of them under throttles: `jobs.claiming`, one after the other.

Each lane has one throttle for itself and one that all lanes share. All have room, so each claim runs all steps: the
look without locks, the locks, the counts. Claimed records are settled between two claims; that is not timed.
"""

import os
import time

import psycopg

from jobs.states import Status
from proving.bench.contestant import KIND, MEASURED, QUEUE
from proving.bench.contestants.ours import WARM_UP, Ours, set_up

LIMIT = 2
ROOM = 5
"""Free places in each throttle."""

THROTTLES = f"""
INSERT INTO jobs_throttle (name, max_in_flight, tokens)
SELECT 'of all', %(running)s + {ROOM}, 0
 UNION ALL
SELECT 'of lane ' || n, %(running)s / %(lanes)s + {ROOM}, 0 FROM generate_series(1, %(lanes)s) AS n
"""
LANES = """
INSERT INTO jobs_lane (throttle_ids)
SELECT ARRAY[(SELECT min(id) FROM jobs_throttle), id] FROM jobs_throttle WHERE name <> 'of all' ORDER BY id
"""
RECORDS = f"""
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, run_after, priority, failures, last_error, attempt, lane,
        started_at, leased_by_id, lease_token, lease_expires_at)
SELECT '{KIND}', '{QUEUE}', %(status)s || ' ' || n, '{{}}', %(status)s, now(), {MEASURED}, 0, '', 1,
       (SELECT min(id) FROM jobs_lane) + n %% %(lanes)s,
       l.since, l.worker, l.token, l.until
  FROM generate_series(1, %(count)s) AS n
  LEFT JOIN (SELECT now() AS since, max(id) AS worker, gen_random_uuid() AS token, now() + interval '1 day' AS until
               FROM jobs_worker) AS l ON %(status)s = {Status.RUNNING}
"""


class LanesOurs(Ours):
    family = "capped"

    def __init__(self) -> None:
        super().__init__("lanes-ours", is_async=False)

    def fill(self, url: str, lanes: int, running: int, ready: int) -> None:
        """Add running and ready records, spread over `lanes` lanes."""
        set_up(url)
        from jobs.models import Worker

        Worker.objects.create(name="other", hostname="other", pid=os.getpid())
        with psycopg.connect(url) as connection:
            values = {"lanes": lanes, "running": running}
            connection.execute(THROTTLES, values)
            connection.execute(LANES)
            for status, count in ((Status.RUNNING, running), (Status.READY, ready)):
                connection.execute(RECORDS, {**values, "status": status.value, "count": count})

    def time_claims(self, url: str, times: int) -> list[float]:
        """Returns the seconds of each claim, after WARM_UP others."""
        set_up(url)
        from django.db import connection

        from jobs.claiming import claim
        from jobs.handlers import Kind, registry
        from jobs.models import Worker
        from jobs.outcomes import Succeeded
        from jobs.prepared_statements import prepare_in_this_thread
        from jobs.settling import settle

        prepare_in_this_thread()
        registry.add(Kind(KIND, home_queue=QUEUE))
        worker = Worker.objects.create(name="bench", hostname="bench", pid=os.getpid())
        taken = []
        for _ in range(WARM_UP + times):
            began = time.perf_counter()
            claimed = claim(QUEUE, worker_id=worker.pk, limit=LIMIT)
            taken.append(time.perf_counter() - began)
            if len(claimed) != LIMIT:
                raise RuntimeError(f"a claim of {LIMIT} came back with {len(claimed)}")
            settle([(record, Succeeded()) for record in claimed])
        connection.close()
        return taken[WARM_UP:]
