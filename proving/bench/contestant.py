"""The interface of a contestant. Half of its methods run in separate processes, since each has its own settings."""

import importlib.metadata
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from proving.bench.gate import Gate
from proving.bench.tally import Tally

Connection = psycopg.Connection[Any]

MEASURED = 10
"""The priority of the jobs that are measured; the jobs behind them have priority 0."""

KIND = QUEUE = "bench"


class Site(NamedTuple):
    """The surroundings of a worker process: database URL, starting line, handler counter, file of handler starts."""

    url: str
    gate: Gate
    tally: Tally
    starts: Path
    workers: int


def migrate() -> None:
    """Make the tables of the Django that has been set up in this process."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


class Contestant:
    """One way to run jobs. `name` is also the key on the command line."""

    name = ""
    family = ""
    """Contestants of one family share tables."""
    distribution = ""
    """The package whose version is printed."""
    at_most: int | None = None
    """A slow one runs no more jobs than this in a drain; its rate is what counts."""
    processes_of_its_own = False
    """True if one command starts all worker processes (`Site.workers`)."""

    @property
    def version(self) -> str | None:
        """The installed version, or None if it is not installed here."""
        try:
            return importlib.metadata.version(self.distribution) if self.distribution else ""
        except importlib.metadata.PackageNotFoundError:
            return None

    # In a separate process.

    def prepare(self, url: str) -> None:
        """Create its tables in an empty database."""
        raise NotImplementedError

    def enqueue(self, url: str, count: int) -> float:
        """Enqueue `count` no-op jobs of priority MEASURED, in bulk. Returns the seconds it took."""
        raise NotImplementedError

    def work(self, site: Site, *, stamp: bool) -> None:
        """Be a worker until SIGTERM. The handler ticks, or (`stamp`) writes its job's number and start."""
        raise NotImplementedError

    def trickle(self, url: str, at: list[float]) -> list[int]:
        """Enqueue single jobs, numbered from 0, each `at` its number of seconds from now (`paced`).

        Returns for each the instant (monotonic, ns) just before its COMMIT was sent.
        """
        raise NotImplementedError

    # In the parent, by plain SQL.

    def put_behind(self, connection: Connection, count: int) -> None:
        """Add `count` ready jobs of priority 0."""
        raise NotImplementedError

    def put_beside(self, connection: Connection, count: int) -> None:
        """Add `count` jobs that are due in a year."""
        raise NotImplementedError

    def is_done(self, connection: Connection, count: int) -> bool:
        """True if no job of priority MEASURED is unfinished. Cheap."""
        raise NotImplementedError

    def finished(self, connection: Connection) -> tuple[int, int]:
        """The number of jobs of priority MEASURED that the database has as done, and of the runs recorded for them."""
        raise NotImplementedError


def paced(at: list[float]) -> Iterator[int]:
    """Count from 0, each number `at` its number of seconds from now, or at once when that has passed."""
    began = time.monotonic()
    for number, seconds in enumerate(at):
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        yield number


def none_above(connection: Connection, table: str, least_id: int, condition: str = "true") -> bool:
    """True if no row of `table` with an id above `least_id` meets `condition`.

    The id is written into the statement: for one from a subquery the planner guesses a third of the table, reads all of
    a million rows, and the bench would measure itself.
    """
    row = connection.execute(f"SELECT EXISTS (SELECT FROM {table} WHERE id > {least_id} AND {condition})").fetchone()
    return row == (False,)


def newest(connection: Connection, query: str) -> int:
    """The number that `query` yields, or 0 if it yields none."""
    row = connection.execute(query).fetchone()
    return int(row[0] or 0) if row else 0
