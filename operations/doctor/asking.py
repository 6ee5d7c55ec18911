"""Asking the database: bounded in time and in rows."""

from collections.abc import Mapping
from typing import Any

from django.db.backends.utils import CursorWrapper

STATEMENT_SECONDS = 5
"""Each statement is served by an index or bounded by a LIMIT. Beyond this, that it is slow is the answer."""
COUNT_TO = 10_000
"""Nobody acts differently on a larger number, and counting a million rows takes seconds."""


def rows(cursor: CursorWrapper, sql: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
    cursor.execute(sql, values)
    return list(cursor.fetchall())


def row(cursor: CursorWrapper, sql: str, values: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """The first row. Raises: LookupError when there is none."""
    cursor.execute(sql, values)
    found = cursor.fetchone()
    if found is None:
        raise LookupError(f"no row for {sql.strip():.60}")
    return tuple(found)


def settings_of_server(cursor: CursorWrapper, *names: str) -> dict[str, str]:
    """Settings of PostgreSQL by name, as this session has them; what this version does not know is left out."""
    found = rows(cursor, "SELECT name, setting FROM pg_settings WHERE name = ANY(%(names)s)", {"names": list(names)})
    return dict(found)


def counted(count: int) -> str:
    """A count that stopped at COUNT_TO + 1, for people."""
    return f"over {COUNT_TO:,}" if count > COUNT_TO else f"{count:,}"
