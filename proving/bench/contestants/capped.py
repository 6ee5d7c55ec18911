"""Claimers under a cap of CAP jobs in flight: PROCESSES × THREADS of them, LIMIT jobs a claim.

`capped-ours` uses `jobs.claiming`, with a throttle. `capped-floor` works on the same table with the least that an exact
cap needs: an advisory lock, a count of running records, a claim of at most the rest, in one transaction that takes one
round trip; and a settle that writes only the record. It has one cap, one lane, no history and no fence.

Both notice an overshoot themselves: between its claim and its settle each claimer adds its records to the number that
all claimers hold, under a lock, and records the sum when it is above the cap.
"""

import fcntl
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from jobs.states import Status
from proving.bench.contestant import KIND, MEASURED, QUEUE, Connection, Site
from proving.bench.contestants.ours import Ours, set_up
from proving.bench.tally import Tally

CAP = 5
PROCESSES = 4
THREADS = 4
LIMIT = 2
FULL_SECONDS = 0.001
"""The wait of a claimer that found the cap full: 16 claimers that ask without a pause only measure themselves."""

LOCK_KEY = 5
CLAIM = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.RUNNING}, attempt = attempt + 1, started_at = statement_timestamp(), leased_by_id = %(worker)s,
       lease_token = gen_random_uuid(), lease_expires_at = statement_timestamp() + interval '60 s'
 WHERE ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_backlogrecord
        WHERE status = {Status.READY} AND queue = '{QUEUE}' AND lane = 1
        ORDER BY priority DESC, rank_day ASC NULLS FIRST, tried_at ASC NULLS FIRST, expected_seconds ASC NULLS FIRST, id
        LIMIT LEAST({LIMIT}, {CAP} - (SELECT count(*) FROM jobs_backlogrecord WHERE status = {Status.RUNNING}))
          FOR UPDATE SKIP LOCKED))
RETURNING id
"""
SETTLE = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.SUCCEEDED}, finished_at = statement_timestamp(), leased_by_id = NULL, lease_token = NULL,
       lease_expires_at = NULL
 WHERE id = ANY(%(ids)s::bigint[])
"""
RUNNING = f"SELECT count(*) FROM jobs_backlogrecord WHERE status = {Status.RUNNING}"

ClaimAndSettle = Callable[["InFlight", Tally], int]
"""One round of a claimer. Returns the number of jobs that it did."""


class InFlight:
    """The number of jobs that all claimers hold at this moment, in a file that all map."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / "in-flight").open("a+b")
        self._file.truncate(mmap.PAGESIZE)
        self._held = memoryview(mmap.mmap(self._file.fileno(), mmap.PAGESIZE)).cast("q")
        self._overshoots = (directory / "starts").open("a", buffering=1)
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, count: int) -> Iterator[None]:
        if self._add(count) > CAP:
            self._overshoots.write("overshoot\n")
        yield
        self._add(-count)

    def _add(self, count: int) -> int:
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            self._held[0] += count
            held = self._held[0]
            fcntl.lockf(self._file, fcntl.LOCK_UN)
            return held


class CappedOurs(Ours):
    family = "capped"

    def __init__(self, name: str = "capped-ours") -> None:
        super().__init__(name, is_async=False)

    def enqueue(self, url: str, count: int) -> float:
        seconds = super().enqueue(url, count)
        from django.db import connection

        from jobs import throttles
        from jobs.models import BacklogRecord, Throttle

        throttle = Throttle.objects.create(name="bench", max_in_flight=CAP)
        BacklogRecord.objects.update(lane=throttles.lane_of([throttle.pk]))
        connection.close()
        return seconds

    def work(self, site: Site, *, stamp: bool) -> None:
        set_up(site.url)
        self._in_threads(site, self.claimer)

    def claimer(self, url: str) -> ClaimAndSettle:
        """The round of one claimer. Called in each thread."""
        from django.db import connection

        from jobs import claiming, settling
        from jobs.handlers import Kind, registry
        from jobs.models import Worker
        from jobs.outcomes import Succeeded
        from jobs.prepared_statements import prepare_in_this_thread

        prepare_in_this_thread()
        registry.add(Kind(KIND, home_queue=QUEUE))
        worker = Worker.objects.create(name="bench", hostname="bench", pid=os.getpid())
        connection.ensure_connection()

        def one_round(in_flight: InFlight, tally: Tally) -> int:
            claimed = claiming.claim(QUEUE, worker_id=worker.pk, limit=LIMIT)
            if claimed:
                with in_flight.hold(len(claimed)):
                    for _ in claimed:
                        tally.tick()
                settling.settle([(record, Succeeded()) for record in claimed])
            return len(claimed)

        return one_round

    def _in_threads(self, site: Site, make: Callable[[str], ClaimAndSettle]) -> None:
        in_flight, all_set, go = InFlight(site.starts.parent), threading.Barrier(THREADS + 1), threading.Event()

        def run() -> None:
            one_round = make(site.url)
            all_set.wait()
            go.wait()
            while True:
                if not one_round(in_flight, site.tally):
                    time.sleep(FULL_SECONDS)

        for _ in range(THREADS):
            threading.Thread(target=run, daemon=True).start()
        all_set.wait()
        site.gate.wait_at()
        go.set()
        threading.Event().wait()

    def is_done(self, connection: Connection, count: int) -> bool:
        unfinished = f"SELECT FROM jobs_backlogrecord WHERE status IN ({Status.READY}, {Status.RUNNING})"
        return connection.execute(f"SELECT EXISTS ({unfinished})").fetchone() == (False,)


class CappedFloor(CappedOurs):
    def __init__(self) -> None:
        super().__init__("capped-floor")

    def work(self, site: Site, *, stamp: bool) -> None:
        self._in_threads(site, self.claimer)

    def claimer(self, url: str) -> ClaimAndSettle:
        connection: Connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        connection.execute("SET plan_cache_mode = force_generic_plan")
        worker = os.getpid()

        def one_round(in_flight: InFlight, tally: Tally) -> int:
            with connection.pipeline(), connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_KEY])
                claim = connection.execute(CLAIM, {"worker": worker})
            ids = [row[0] for row in claim.fetchall()]
            if ids:
                with in_flight.hold(len(ids)):
                    for _ in ids:
                        tally.tick()
                connection.execute(SETTLE, {"ids": ids})
            return len(ids)

        return one_round

    def finished(self, connection: Connection) -> tuple[int, int]:
        """The numbers of jobs and runs. There is no history, so the runs are the attempts that the records count."""
        row = connection.execute(
            f"SELECT count(*) FILTER (WHERE status = {Status.SUCCEEDED}), sum(attempt) FROM jobs_backlogrecord "
            f"WHERE priority = {MEASURED}"
        ).fetchone()
        return (row[0], row[1]) if row else (0, 0)
