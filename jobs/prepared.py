"""Runs the statements of the lease protocol: parameters bound by the server and, in a worker, prepared.

They run on Django's own connection and inside its transactions; only its cursor is gone round, which binds on the
client, prepares nothing, and decodes instants in Python.
"""

from typing import Any

import psycopg
from django.db import connection
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

from jobs import conf

SESSION = """
SET plan_cache_mode = force_generic_plan;
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '60s'
"""
"""Of a worker's connections. One plan for every batch, made once; and a host that stalls holds no lock for ever."""

PREPARE_AT_ONCE = 0


def execute(sql: str, values: dict[str, Any]) -> "psycopg.Cursor[tuple[Any, ...]]":
    """Run one statement. Returns its cursor: rows with instants in UTC, JSON as text.

    Raises: django.db.Error.
    """
    connection.ensure_connection()
    cursor = psycopg.Cursor(connection.connection)
    cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
    cursor.adapters.register_loader("jsonb", TextLoader)
    with connection.wrap_database_errors:
        cursor.execute(sql, values)
    return cursor


def prepare_from_now_on(sender: object, connection: Any, **_: object) -> None:
    """Receiver of Django's `connection_created` in a worker. Does nothing for one that polls: a pooler of
    transactions hands each of them to another session."""
    if conf.listens():
        connection.connection.execute(SESSION)
        connection.connection.prepare_threshold = PREPARE_AT_ONCE
