"""The two clocks: the database's for every instant that is stored, the machine's boot clock for deadlines."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import local
from typing import Any

from django.db import connection

CLOCK = "COALESCE(%(now)s::timestamptz, clock_timestamp())"
"""The present in a statement that may have waited for a lock; tests give `now`."""

ARRIVAL = "COALESCE(%(now)s::timestamptz, statement_timestamp())"
"""The instant at which a statement arrived: its present, if it waits for no lock (a claim, a settle of plain
successes)."""


def database_clock() -> datetime:
    """The database's present instant, aware UTC. Host clocks may disagree; nothing correct depends on them."""
    if (asked := getattr(_thread, "asked", None)) is not None:
        instant, at = asked
        return instant + timedelta(seconds=boot_seconds() - at)  # type: ignore[no-any-return]
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        clock: datetime = cursor.fetchone()[0]
        return clock


_thread = local()
"""`asked`: the database's instant and the boot seconds at which it was read, while it is read once."""


@contextmanager
def clock_asked_once(*columns: str) -> Iterator[list[Any]]:
    """Let `database_clock` ask the database once in this thread, and count on from there by the boot clock: for callers
    that do many short things in a row. Yields the values of `columns`, scalar expressions that the same statement asks,
    and that see the instant as `clock.now`. Raises: django.db.Error.
    """
    with connection.cursor() as cursor:
        wanted = ",\n       ".join(("clock.now", *columns))
        cursor.execute(f"SELECT {wanted}\n  FROM (SELECT clock_timestamp() AS now) AS clock")
        now, *found = cursor.fetchone()
    _thread.asked = now, boot_seconds()  # in this order: never ahead of the database
    try:
        yield found
    finally:
        _thread.asked = None


def host_clock() -> datetime:
    """The present instant as this machine has it, aware UTC."""
    return datetime.now(UTC)


def ahead_of_database(ask: Callable[[], datetime] = database_clock) -> float:
    """Seconds by which this machine's clock is ahead of the database's, negative if it is behind. Only differences
    outside of the time between question and answer count: an answer delayed by an outage is not a wrong clock.
    `ask`: returns the database's instant.
    """
    before, at_database, after = host_clock(), ask(), host_clock()
    return max(before - at_database, min(after - at_database, timedelta())).total_seconds()


skew = 0.0
"""Seconds by which this machine's clock is ahead of the database's, as of the worker's last heartbeat."""

MAX_SKEW_SECONDS = 5.0
"""The difference of a host's clock from the database's at which log and doctor report it. With NTP it is
milliseconds.
"""

BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_seconds() -> float:
    """Seconds since some fixed point, counted through suspends: a laptop's lid does not stop a lease."""
    return time.clock_gettime(BOOT_CLOCK)
