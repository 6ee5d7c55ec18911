"""django-tasks-db, the database backend of django-tasks: `db_worker`'s Worker, one a process.

Tuning: no start-up delay, an interval of 0.05 s (the default is 1 s) and logging off; there is nothing else to tune. It
claims and enqueues one job at a time by design; here it enqueues them in one transaction.
"""

import json
import os
import time
from typing import Any

from proving.bench.contestant import MEASURED, Connection, Contestant, Site, migrate, paced

INTERVAL_SECONDS = 0.05
JOB = "proving.bench.contestants.django_tasks_job.job"


def set_up(url: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="proving.bench.contestants.django_site",
        DATABASE_URL=url,
        BENCH_APPS=json.dumps(["django_tasks", "django_tasks_db"]),
    )
    import django

    django.setup()


class DjangoTasks(Contestant):
    name = family = "django-tasks"
    distribution = "django-tasks-db"
    at_most = 2000

    def prepare(self, url: str) -> None:
        set_up(url)
        migrate()

    def enqueue(self, url: str, count: int) -> float:
        set_up(url)
        from django.db import connection, transaction

        from proving.bench.contestants.django_tasks_job import job

        connection.ensure_connection()
        measured = job.using(priority=MEASURED)
        began = time.perf_counter()
        with transaction.atomic():
            for number in range(count):
                measured.enqueue(number)
        return time.perf_counter() - began

    def work(self, site: Site, *, stamp: bool) -> None:
        set_up(site.url)
        from django.db import connection
        from django_tasks_db.management.commands.db_worker import Worker

        from proving.bench.contestants import django_tasks_job

        django_tasks_job.work_for(site, stamp=stamp)
        connection.ensure_connection()
        worker = Worker(
            queue_names=["default"],
            interval=INTERVAL_SECONDS,
            batch=False,
            backend_name="default",
            startup_delay=False,
            max_tasks=None,
            worker_id=f"worker-{os.getpid()}",
            excluded_queue_names=[],
        )
        worker.configure_signals()
        site.gate.wait_at()
        worker.run()

    def trickle(self, url: str, at: list[float]) -> list[int]:
        set_up(url)
        from django.db import transaction

        from proving.bench.contestants.django_tasks_job import job

        sent = []
        for number in paced(at):
            with transaction.atomic():
                job.using(priority=MEASURED).enqueue(number)
                sent.append(time.monotonic_ns())
        return sent

    def put_behind(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, "'9999-01-01 00:00:00+00'"))

    def put_beside(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, "now() + interval '1 year'"))

    def is_done(self, connection: Connection, count: int) -> bool:
        # an index covers ready jobs, none covers running ones: the second query reads the table, so it comes last
        for status in ("READY", "RUNNING"):
            left = f"status = '{status}' AND priority = {MEASURED}"
            found = f"SELECT EXISTS (SELECT FROM django_tasks_database_dbtaskresult WHERE {left})"
            if connection.execute(found).fetchone() != (False,):
                return False
        return True

    def finished(self, connection: Connection) -> tuple[int, int]:
        row: Any = connection.execute(
            "SELECT count(*) FILTER (WHERE status = 'SUCCESSFUL'), sum(jsonb_array_length(worker_ids)) "
            f"FROM django_tasks_database_dbtaskresult WHERE priority = {MEASURED}"
        ).fetchone()
        return row[0], row[1]


def _fill(count: int, run_after: str) -> str:
    return f"""
    INSERT INTO django_tasks_database_dbtaskresult
           (id, status, enqueued_at, args_kwargs, priority, task_path, worker_ids, queue_name, backend_name, run_after,
            exception_class_path, traceback)
    SELECT gen_random_uuid(), 'READY', now(), '{{"args": [0], "kwargs": {{}}}}', 0, '{JOB}', '[]', 'default',
           'default', {run_after}, '', ''
      FROM generate_series(1, {count})
    """
