"""The two clocks: the database's for every instant that is stored, the machine's boot clock for deadlines."""

import time
from datetime import datetime

from django.db import connection

CLOCK = "COALESCE(%(now)s::timestamptz, clock_timestamp())"
"""The present in a statement that may have waited for a lock; tests give `now`."""

ARRIVAL = "COALESCE(%(now)s::timestamptz, statement_timestamp())"
"""The present in a statement that waits for no lock: a claim, or a settle of plain successes."""


def database_clock() -> datetime:
    """The database's present instant, aware UTC. Host clocks may disagree; nothing correct depends on them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        clock: datetime = cursor.fetchone()[0]
        return clock


skew = 0.0
"""Seconds by which this machine's clock is ahead of the database's, as of the worker's last heartbeat."""

MAX_SKEW_SECONDS = 5.0
"""How far a host's clock may be off the database's before log and doctor say so. With NTP it is milliseconds."""

BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_seconds() -> float:
    """Seconds since some fixed point, counted through suspends: a laptop's lid does not stop a lease."""
    return time.clock_gettime(BOOT_CLOCK)
