"""This project: `jobs.worker.process.WorkerProcess`, as `manage.py worker` runs it.

Tuning: none. The worker learns how many records to claim at once; the queue's concurrency is that of backups in the
project's settings, 16. There are two variants, one for each kind of handler: `ours-async` runs on the event loop,
`ours-sync` in threads.
"""

import os
import time
from collections.abc import Iterable
from typing import Any

from jobs.states import Status, WaitingFor
from proving.bench.contestant import KIND, MEASURED, QUEUE, Connection, Contestant, Site, migrate, paced
from proving.bench.contestants.stamps import stamper

PLACES = 16
WARM_UP = 10
"""Claims that pay one-time costs, such as the plan of the statement."""
SETTINGS = {"DJANGO_SETTINGS_MODULE": "backupsched.settings", "SECRET_KEY": "bench", "LOG_LEVEL": "WARNING"}


def set_up(url: str) -> None:
    """Let Django use the database at `url`."""
    os.environ.update(SETTINGS, DATABASE_URL=url)
    import django

    django.setup()


def put_jobs(numbers: Iterable[int]) -> None:
    """Enqueue numbered jobs. After `set_up`."""
    from jobs.backlog import enqueue

    enqueue(KIND, ((f"job {number}", {}) for number in numbers), queue=QUEUE, priority=MEASURED)


class Ours(Contestant):
    family = "ours"

    def __init__(self, name: str, *, is_async: bool) -> None:
        self.name = name
        self._is_async = is_async

    def prepare(self, url: str) -> None:
        set_up(url)
        migrate()

    def enqueue(self, url: str, count: int) -> float:
        set_up(url)
        from django.db import connection

        connection.ensure_connection()
        began = time.perf_counter()
        put_jobs(range(count))
        return time.perf_counter() - began

    def work(self, site: Site, *, stamp: bool) -> None:
        set_up(site.url)
        from jobs.conf import QueueRule
        from jobs.handlers import Kind, Run, registry
        from jobs.outcomes import Outcome, Succeeded
        from jobs.worker.process import WorkerProcess

        class GatedWorker(WorkerProcess):
            def start(self) -> None:
                super().start()
                site.gate.wait_at()

        tick, write, done = site.tally.tick, stamper(site.starts), Succeeded()

        def handle(run: Run) -> Outcome:
            if stamp:
                write(int(run.record.subject.split()[1]))
            tick()
            return done

        async def handle_async(run: Run) -> Outcome:
            return handle(run)

        registry.add(Kind(KIND, home_queue=QUEUE))
        registry.handler(KIND, queue=QUEUE)(handle_async if self._is_async else handle)
        worker = GatedWorker([QueueRule(QUEUE, PLACES)], grace=5)
        worker.install_signal_handlers()
        worker.run()

    def time_claims(self, url: str, times: int) -> list[float]:
        """Claim single records, on a connection like a worker's. Returns the seconds of each, after WARM_UP others."""
        set_up(url)
        from django.db import connection

        from jobs.claiming import claim
        from jobs.models import Worker
        from jobs.prepared_statements import prepare_in_this_thread

        prepare_in_this_thread()
        worker = Worker.objects.create(name="bench", hostname="bench", pid=os.getpid())
        taken = []
        for _ in range(WARM_UP + times):
            began = time.perf_counter()
            claimed = claim(QUEUE, worker_id=worker.pk, limit=1)
            taken.append(time.perf_counter() - began)
            if len(claimed) != 1:
                raise RuntimeError("a claim came back empty")
        connection.close()
        return taken[WARM_UP:]

    def trickle(self, url: str, at: list[float]) -> list[int]:
        set_up(url)
        from django.db import transaction

        sent = []
        for number in paced(at):
            with transaction.atomic():
                put_jobs([number])
                sent.append(time.monotonic_ns())
        return sent

    def put_behind(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, Status.READY, "NULL", "now()"))

    def put_beside(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, Status.WAITING, str(WaitingFor.START.value), "now() + interval '1 year'"))

    def is_done(self, connection: Connection, count: int) -> bool:
        row = connection.execute(
            f"""
            SELECT EXISTS (SELECT FROM jobs_backlogrecord
                            WHERE status = {Status.READY} AND queue = '{QUEUE}' AND lane = 0
                              AND priority = {MEASURED}),
                   EXISTS (SELECT FROM jobs_backlogrecord WHERE status = {Status.RUNNING} AND priority = {MEASURED})
            """
        ).fetchone()
        return row == (False, False)

    def finished(self, connection: Connection) -> tuple[int, int]:
        row: Any = connection.execute(
            f"""
            SELECT count(*) FILTER (WHERE r.status = {Status.SUCCEEDED}),
                   (SELECT count(*) FROM jobs_attempt a JOIN jobs_backlogrecord b ON b.id = a.record_id
                     WHERE b.priority = {MEASURED})
              FROM jobs_backlogrecord r
             WHERE r.priority = {MEASURED}
            """
        ).fetchone()
        return row[0], row[1]


def _fill(count: int, status: Status, waiting_for: str, run_after: str) -> str:
    return f"""
    INSERT INTO jobs_backlogrecord
           (kind, queue, subject, payload, status, waiting_for, run_after, priority, failures, last_error, attempt,
            lane)
    SELECT '{KIND}', '{QUEUE}', 'other ' || n, '{{}}', {status}, {waiting_for}, {run_after}, 0, 0, '', 0, 0
      FROM generate_series(1, {count}) AS n
    """
