"""DATABASES["default"] and USE_TZ: what the backlog cannot live with, or pays for."""

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage
from psycopg import IsolationLevel

from operations.checks.messages import error, warning

LEVELS = (None, IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
"""PostgreSQL runs the first two alike."""


def wrong_with_database(database: dict[str, Any], vendor: str, use_tz: bool) -> Iterator[CheckMessage]:
    """`database`: its settings. `vendor`: of its backend, as `postgresql`. `use_tz`: settings.USE_TZ."""
    if vendor != "postgresql":
        yield error(
            "E011",
            f"the default database is {vendor}; the backlog needs PostgreSQL (SKIP LOCKED, partial indexes, LISTEN)",
            "point DATABASE_URL at a PostgreSQL 14 or later",
        )
        return
    if database.get("OPTIONS", {}).get("isolation_level") not in LEVELS:
        yield error(
            "E012",
            "the default database runs its transactions above READ COMMITTED: throttles would let too many through, "
            "and claims would fail to serialise",
            "take isolation_level out of DATABASES['default']['OPTIONS']",
        )
    if database.get("ATOMIC_REQUESTS"):
        yield warning(
            "W002",
            "ATOMIC_REQUESTS keeps a transaction open for as long as a page takes: what it locks, claims pass over, "
            "and dead rows stay",
            "set ATOMIC_REQUESTS to False; what has to be atomic says so itself",
        )
    pooled = bool(database.get("OPTIONS", {}).get("pool"))
    if database.get("CONN_MAX_AGE") == 0 and not pooled:
        yield warning(
            "W003",
            "CONN_MAX_AGE is 0: every handler opens a connection of its own and closes it again",
            "set CONN_MAX_AGE to None, and CONN_HEALTH_CHECKS to True",
        )
    if not use_tz:
        yield error("E013", "USE_TZ is False, but all instants of the backlog are aware", "set USE_TZ to True")
