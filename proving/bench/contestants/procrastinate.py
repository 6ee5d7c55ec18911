"""Procrastinate, an async worker on psycopg and uvloop.

Tuning: `concurrency` of CONCURRENCY (the default is 1), a pool with as many connections (the default is 4), logging
off, finished jobs kept (the default, as by all others). It fetches one job at a time by design.
"""

import asyncio
import json
import logging
import time
from typing import Any

import psycopg

from proving.bench.contestant import KIND, MEASURED, QUEUE, Connection, Contestant, Site, newest, none_above, paced
from proving.bench.contestants.stamps import stamper

CONCURRENCY = 16


def make_app(url: str) -> Any:
    import procrastinate

    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=CONCURRENCY, max_size=CONCURRENCY)
    return procrastinate.App(connector=connector)


class Procrastinate(Contestant):
    name = family = distribution = "procrastinate"
    at_most = 4000

    def prepare(self, url: str) -> None:
        async def install() -> None:
            app = make_app(url)
            async with app.open_async():
                await app.schema_manager.apply_schema_async()

        asyncio.run(install())

    def enqueue(self, url: str, count: int) -> float:
        async def put() -> float:
            app = make_app(url)
            job = app.configure_task(KIND, queue=QUEUE, priority=MEASURED, allow_unknown=True)
            async with app.open_async():
                began = time.perf_counter()
                await job.batch_defer_async(*({"number": number} for number in range(count)))
                return time.perf_counter() - began

        return asyncio.run(put())

    def work(self, site: Site, *, stamp: bool) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        tick, write = site.tally.tick, stamper(site.starts)

        async def serve() -> None:
            app = make_app(site.url)

            @app.task(name=KIND, queue=QUEUE)
            async def handle(number: int) -> None:
                if stamp:
                    write(number)
                tick()

            async with app.open_async():
                manager = app.job_manager
                fetch = manager.fetch_job

                async def first_fetch(**options: Any) -> Any:
                    site.gate.wait_at()
                    manager.fetch_job = fetch
                    return await fetch(**options)

                manager.fetch_job = first_fetch
                await app.run_worker_async(queues=[QUEUE], concurrency=CONCURRENCY, shutdown_graceful_timeout=2)

        import uvloop

        uvloop.run(serve())

    def trickle(self, url: str, at: list[float]) -> list[int]:
        """Enqueue by its database function, as its client does, so that the bench sends the COMMIT."""
        sent = []
        with psycopg.connect(url) as connection:
            for number in paced(at):
                connection.execute(
                    "SELECT procrastinate_defer_jobs_v1(ARRAY["
                    "ROW(%s, %s, %s, NULL, NULL, %s::jsonb, NULL)::procrastinate_job_to_defer_v1])",
                    [QUEUE, KIND, MEASURED, json.dumps({"number": number})],
                )
                sent.append(time.monotonic_ns())
                connection.commit()
        return sent

    def put_behind(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, "NULL"))

    def put_beside(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, "now() + interval '1 year'"))

    def is_done(self, connection: Connection, count: int) -> bool:
        # the measured jobs came last
        before = newest(connection, "SELECT max(id) FROM procrastinate_jobs") - count
        return none_above(connection, "procrastinate_jobs", before, "status IN ('todo', 'doing')")

    def finished(self, connection: Connection) -> tuple[int, int]:
        row: Any = connection.execute(
            "SELECT count(*) FILTER (WHERE status = 'succeeded'), sum(attempts) "
            f"FROM procrastinate_jobs WHERE priority = {MEASURED}"
        ).fetchone()
        return row[0], row[1]


def _fill(count: int, scheduled_at: str) -> str:
    return f"""
    INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args, status, scheduled_at)
    SELECT '{QUEUE}', '{KIND}', 0, '{{"number": 0}}', 'todo', {scheduled_at}
      FROM generate_series(1, {count})
    """
