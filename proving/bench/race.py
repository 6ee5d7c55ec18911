"""One drain: the speed at which a backlog of no-op jobs is worked off.

All contestants have the same clock. The jobs are in the database, vacuumed and analysed; the worker processes have
imported, connected and started everything, and are about to claim. The clock starts when they are released and stops
when, according to the database, every one of these jobs is done: once the handlers have been called often enough (a
counter in shared memory), the database is queried every 5 ms. The drain fails unless every job was done exactly once.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from proving.bench.contestant import Connection, Contestant
from proving.bench.gate import LOOK_EVERY_SECONDS
from proving.bench.processes import ContestantFailed, Crew, crew
from proving.bench.server import BenchServer

ASK_EVERY_SECONDS = 0.005
QUIET_SECONDS = 0.05
"""The time without a handler call after which the database is queried, whatever the counter shows."""
LONGEST_SECONDS = 120.0


Look = Callable[[list[int], int], None]
"""Called again and again during a drain, with the worker processes' ids and the number of handlers called so far."""


class DrainResult(NamedTuple):
    """`lines`: those that the handlers wrote. `samples`: the values of the sampling query."""

    jobs: int
    seconds: float
    lines: list[str]
    samples: list[int]

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.seconds


def drain(
    server: BenchServer,
    contestant: Contestant,
    template: str,
    jobs: int,
    workers: int,
    *,
    pinned: bool = False,
    sample: str = "",
    look: Look | None = None,
    longest: float = LONGEST_SECONDS,
) -> DrainResult:
    """Work off the `jobs` measured jobs of `template` with `workers` processes, in a new copy.

    `pinned`: another session holds an older snapshot. `sample`: a query for a number, run every 5 ms.
    Raises: ContestantFailed, also if it takes over `longest` seconds.
    """
    samples: list[int] = []
    with (
        server.copy_of(template) as database,
        server.connect(database) as connection,
        server.connect(database) as other,
        crew(contestant, server.url(database), workers) as there,
    ):
        server.checkpoint()
        if pinned:
            other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT pg_current_xact_id()")
        pids = [process.pid for process in there.processes]

        def watch(called: int) -> None:
            if look:
                look(pids, called)
            if sample and (row := other.execute(sample).fetchone()):
                samples.append(row[0])
                time.sleep(ASK_EVERY_SECONDS)

        seconds = _race(contestant, connection, there, jobs, watch, longest)
        check_exactly_once(contestant.name, jobs, *contestant.finished(connection))
        return DrainResult(jobs, seconds, there.lines(), samples)


def check_exactly_once(name: str, jobs: int, done: int, runs: int) -> None:
    """Check the counts of a drain. Raises: ContestantFailed if a job was not done, or done twice."""
    if (done, runs) != (jobs, jobs):
        raise ContestantFailed(f"{name}: {done} of {jobs} jobs done, by {runs} runs")


def _race(
    contestant: Contestant,
    connection: Connection,
    there: Crew,
    jobs: int,
    watch: Callable[[int], None],
    longest: float,
) -> float:
    began = time.perf_counter()
    there.gate.open()
    called, moved_at = 0, began
    while True:
        now = time.perf_counter()
        if (count := there.tally.total()) != called:
            called, moved_at = count, now
        watch(called)
        if called >= jobs or now - moved_at > QUIET_SECONDS:
            if contestant.is_done(connection, jobs):
                return time.perf_counter() - began
            time.sleep(ASK_EVERY_SECONDS)
        else:
            time.sleep(LOOK_EVERY_SECONDS)
        if now - began > longest:
            raise ContestantFailed(f"{contestant.name}: {called} of {jobs} jobs in {longest:.0f} s")
