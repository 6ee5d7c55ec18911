"""The statements that are sent to PostgreSQL."""

from typing import Any

import psycopg
import pytest


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each statement that is sent, as text: a savepoint and its release stand for BEGIN and COMMIT here."""
    statements, execute = list[str](), psycopg.Cursor.execute

    def counted(cursor: Any, query: Any, *args: Any, **options: Any) -> Any:
        statements.append(query if isinstance(query, str) else repr(query))
        return execute(cursor, query, *args, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    return statements
