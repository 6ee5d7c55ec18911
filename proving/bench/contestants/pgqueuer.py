"""PgQueuer on asyncpg and uvloop, one QueueManager a process.

Tuning: `batch_size` of BATCH (the default is 10; its completion buffer has the same size, so finished jobs are written
in batches of this size too; of 250, 500, 1000 and 2000 it was best for one worker, by less than the noise), no
concurrency limits (so the plain dequeue statement without the capacity tables), a pool of connections, so that a batch
is written while the next one is fetched, and its autovacuum settings (`optimize_autovacuum`). Durability is `durable`,
its default: all tables are logged, as all other contestants' are. The rest of its buffer is written at the end by a
timer, up to 0.12 s later.
"""

import asyncio
import signal
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from proving.bench.contestant import KIND, MEASURED, Connection, Contestant, Site, newest, none_above, paced
from proving.bench.contestants.stamps import stamper

BATCH = 500
POOL = 4

Result = TypeVar("Result")


class Pgqueuer(Contestant):
    name = family = distribution = "pgqueuer"

    def prepare(self, url: str) -> None:
        async def install() -> None:
            import asyncpg
            from pgqueuer.queries import Queries

            connection = await asyncpg.connect(url)
            queries = Queries.from_asyncpg_connection(connection)
            await queries.install()
            await queries.optimize_autovacuum()
            await connection.close()

        asyncio.run(install())

    def enqueue(self, url: str, count: int) -> float:
        async def put() -> float:
            import asyncpg
            from pgqueuer.queries import Queries

            connection = await asyncpg.connect(url)
            queries = Queries.from_asyncpg_connection(connection)
            began = time.perf_counter()
            await queries.enqueue([KIND] * count, [None] * count, [MEASURED] * count)
            seconds = time.perf_counter() - began
            await connection.close()
            return seconds

        return _run(put())

    def work(self, site: Site, *, stamp: bool) -> None:
        async def serve() -> None:
            import asyncpg
            from pgqueuer import PgQueuer
            from pgqueuer.models import Job

            tick, write = site.tally.tick, stamper(site.starts)
            pool = await asyncpg.create_pool(site.url, min_size=POOL, max_size=POOL)
            queue = PgQueuer.from_asyncpg_pool(pool)

            @queue.entrypoint(KIND)
            async def handle(job: Job) -> None:
                if stamp:
                    write(int(job.payload or b"0"))
                tick()

            queries: Any = queue.qm.queries
            dequeue = queries.dequeue

            async def first_dequeue(*arguments: Any, **options: Any) -> Any:
                site.gate.wait_at()
                queries.dequeue = dequeue
                return await dequeue(*arguments, **options)

            queries.dequeue = first_dequeue
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
            await queue.qm.run(batch_size=BATCH)
            await pool.close()

        _run(serve())

    def trickle(self, url: str, at: list[float]) -> list[int]:
        async def put() -> list[int]:
            import asyncpg
            from pgqueuer.queries import Queries

            sent = []
            connection = await asyncpg.connect(url)
            queries = Queries.from_asyncpg_connection(connection)
            for number in paced(at):
                async with connection.transaction():
                    await queries.enqueue(KIND, str(number).encode(), MEASURED)
                    sent.append(time.monotonic_ns())
            await connection.close()
            return sent

        return _run(put())

    def put_behind(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, "now()"))

    def put_beside(self, connection: Connection, count: int) -> None:
        connection.execute(_fill(count, "now() + interval '1 year'"))

    def is_done(self, connection: Connection, count: int) -> bool:
        # finished jobs are deleted; the measured jobs came last
        before = newest(connection, "SELECT last_value FROM pgqueuer_id_seq") - count
        return none_above(connection, "pgqueuer", before)

    def finished(self, connection: Connection) -> tuple[int, int]:
        row: Any = connection.execute(
            "SELECT count(DISTINCT job_id), count(*) FROM pgqueuer_log "
            f"WHERE status = 'successful' AND priority = {MEASURED}"
        ).fetchone()
        return row[0], row[1]


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    import uvloop

    result: Result = uvloop.run(work)
    return result


def _fill(count: int, execute_after: str) -> str:
    return f"""
    INSERT INTO pgqueuer (priority, entrypoint, status, execute_after)
    SELECT 0, '{KIND}', 'queued', {execute_after}
      FROM generate_series(1, {count})
    """
