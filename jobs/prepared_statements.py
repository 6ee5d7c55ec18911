"""Runs the statements of the lease protocol: parameters made fit for the server and bound by it and, in a worker,
prepared.

They run on Django's own connection and inside its transactions; only its cursor is bypassed, which binds on the client,
prepares nothing, and decodes instants in Python.
"""

import json
import math
import time
from collections.abc import Callable, Iterable
from threading import get_ident, local
from typing import Any

import psycopg
from django.db import connection
from django.db.backends.signals import connection_created
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

from jobs import conf

PREPARE_AT_ONCE = 0
NEVER_UNASKED = 2**31

LARGEST_FACTS = 4000
"""Characters of JSON: facts are kept with each attempt."""


def execute(sql: str, values: dict[str, Any], *, prepare: bool = False) -> "psycopg.Cursor[tuple[Any, ...]]":
    """Run one statement. Returns its cursor: rows with instants in UTC, JSON as text. `prepare`: at its first run, also
    outside of a worker, unless a pooler hands each transaction to another session.

    Raises: django.db.Error.
    """
    connection.ensure_connection()
    prepare = prepare and conf.listens()
    if prepare and connection.connection.prepare_threshold is None:  # Django's: psycopg would leave `prepare` unread
        connection.connection.prepare_threshold = NEVER_UNASKED
    cursor = psycopg.Cursor(connection.connection)
    cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
    cursor.adapters.register_loader("jsonb", TextLoader)
    with connection.wrap_database_errors:
        cursor.execute(sql, values, prepare=prepare or None)
    return cursor


def execute_in_batches(sql: str, values: dict[str, Any], limit: int) -> int:
    """Run a statement that changes up to `limit` rows, each time in a separate transaction, until there are no more.
    Returns the number of rows.
    """
    return until_done(lambda: execute(sql, {**values, "limit": limit}).rowcount, limit)


STEP_SECONDS = 0.1
"""The share of a worker's tick that a step may take, but for the emission: promoting a million records that are due at
once takes ten seconds. The next tick, right after the claims, does the rest."""


def until_done(step: Callable[[], int], batch: int, seconds: float = math.inf) -> int:
    """Repeat `step`, which returns the number of rows that it changed, until these are fewer than `batch`, for at most
    `seconds`. Returns the sum."""
    until = time.monotonic() + seconds
    changed = count = step()
    while count >= batch and time.monotonic() < until:
        count = step()
        changed += count
    return changed


def array(numbers: Iterable[object]) -> str:
    """A PostgreSQL array as text: a tenth of the time that adapting its elements one by one takes."""
    return "{" + ",".join(map(str, numbers)) + "}"


def storable(text: str, most: int | None = None) -> str:
    """`text` as PostgreSQL can keep it, its first `most` characters: programs quote file names with NUL or half of a
    surrogate pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")[:most]


def facts_as_json(facts: dict[str, Any] | None) -> str | None:
    """A flat dictionary as JSON that PostgreSQL can store. None if it is empty.

    A value that JSON does not have is stored as text; of one that is too large, only its size is stored.
    """
    if not facts:
        return None
    try:
        text = json.dumps({storable(key): _fact(value) for key, value in facts.items()}, allow_nan=False)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return json.dumps({"unreadable": storable(repr(facts))[: LARGEST_FACTS // 4]})
    return text if len(text) <= LARGEST_FACTS else json.dumps({"too_large": len(text)})


def _fact(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return value if value is None or isinstance(value, bool | int | float) else storable(str(value))


def session_settings(lease_seconds: float) -> str:
    """The statements that set up a connection of a worker's own threads.

    One plan for every batch, made once. A worker that hangs in a transaction holds its locks for a lease at most; a
    statement that waits for one of them gives up in a sixth of a lease.
    """
    lease = lease_seconds * 1000
    return f"""
SET plan_cache_mode = force_generic_plan;
SET lock_timeout = {int(lease / 6)};
SET idle_in_transaction_session_timeout = {int(lease)}
"""


def prepare_in_this_thread() -> None:
    """Let the connections that this thread opens from now on prepare their statements at once, with one plan each.

    Not for the threads of handlers, which may have reasons to hold a lock or a transaction for longer. Does nothing in
    an installation that polls: a pooler hands each transaction to another session.
    """

    def prepare(opened: "psycopg.Connection[Any]") -> None:
        opened.execute(session_settings(conf.lease_seconds()))
        opened.prepare_threshold = PREPARE_AT_ONCE
        _backends[get_ident()] = opened.info.backend_pid

    _set_up_in_this_thread(prepare)
    connection.close()


def limit_lock_waits_in_this_thread(seconds: float) -> None:
    """Let statements on the connections that this thread opens from now on wait at most `seconds` for a lock.

    Does nothing in an installation that polls, either.
    """
    _set_up_in_this_thread(lambda opened: opened.execute(f"SET lock_timeout = {int(seconds * 1000)}"))


def is_ours(backend_pid: int) -> bool:
    """True if that session is one of this worker's own threads, which need no NOTIFY between each other."""
    return backend_pid in list(_backends.values())


_thread = local()
"""`set_up`: the settings that its connections begin with."""

_backends: dict[int, int] = {}
"""Thread → the process id of its session's server."""


def _set_up_in_this_thread(set_up: "Callable[[psycopg.Connection[Any]], object]") -> None:
    _thread.set_up = set_up if conf.listens() else None
    connection_created.connect(_set_up, dispatch_uid="jobs.prepared_statements")


def _set_up(sender: object, connection: Any, **_: object) -> None:
    if set_up := getattr(_thread, "set_up", None):
        set_up(connection.connection)
