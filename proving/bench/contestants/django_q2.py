"""django-q2 with the ORM broker: `qcluster` with the measurement's number of workers.

Tuning: `bulk` and `queue_limit` of BULK (the pusher takes this many in one query instead of one, and hands over as many
before the workers have taken them), `save_limit` 0 (every success is kept, as by all others, and no pruning query
runs per task), no timeout, no recycling, the scheduler off, logging off, polling every 0.05 s. A cluster also has a
pusher and a monitor process; "1 worker" is 4 processes. It has no bulk enqueue: tasks are put in one by one, in one
transaction.
"""

import json
import os
import time
from typing import Any

from proving.bench.contestant import Connection, Contestant, Site, migrate, paced

BULK = 200
CLUSTER = {
    "name": "bench",
    "orm": "default",
    "bulk": BULK,
    "queue_limit": BULK,
    "poll": 0.05,
    "save_limit": 0,
    "recycle": 1_000_000,
    "retry": 600,
    "scheduler": False,
    "catch_up": False,
    "log_level": "ERROR",
    "broker_class": "proving.bench.contestants.django_q2_parts.GatedBroker",
}
JOB = "proving.bench.contestants.django_q2_parts.job"


def set_up(url: str, **cluster: Any) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="proving.bench.contestants.django_site",
        DATABASE_URL=url,
        BENCH_APPS=json.dumps(["django_q"]),
        BENCH_Q_CLUSTER=json.dumps({**CLUSTER, **cluster}),
    )
    import django

    django.setup()


class DjangoQ2(Contestant):
    name = family = distribution = "django-q2"
    at_most = 2000
    processes_of_its_own = True

    def prepare(self, url: str) -> None:
        set_up(url)
        migrate()

    def enqueue(self, url: str, count: int) -> float:
        set_up(url)
        from django.db import connection, transaction
        from django_q.tasks import async_task

        connection.ensure_connection()
        began = time.perf_counter()
        with transaction.atomic():
            for number in range(count):
                async_task(JOB, number)
        return time.perf_counter() - began

    def work(self, site: Site, *, stamp: bool) -> None:
        os.environ["BENCH_STAMP"] = "1" if stamp else ""
        os.environ["BENCH_DIRECTORY"] = str(site.starts.parent)
        set_up(site.url, workers=site.workers)
        from django_q.cluster import Cluster

        Cluster().start()

    def trickle(self, url: str, at: list[float]) -> list[int]:
        set_up(url)
        from django.db import transaction
        from django_q.tasks import async_task

        sent = []
        for number in paced(at):
            with transaction.atomic():
                async_task(JOB, number)
                sent.append(time.monotonic_ns())
        return sent

    def is_done(self, connection: Connection, count: int) -> bool:
        return connection.execute("SELECT EXISTS (SELECT FROM django_q_ormq)").fetchone() == (False,)

    def finished(self, connection: Connection) -> tuple[int, int]:
        row: Any = connection.execute(
            "SELECT count(*) FILTER (WHERE success), COALESCE(sum(attempt_count), 0) FROM django_q_task"
        ).fetchone()
        return row[0], row[1]
