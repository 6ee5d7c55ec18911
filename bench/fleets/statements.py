"""Counts the statements that this process sends, whichever way they go: Django's cursors and the lease protocol's."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yields a list that grows by the text of each statement. BEGIN and COMMIT are not among them."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def counting(self: "psycopg.Cursor[Any]", query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(str(query))
        return execute(self, query, *arguments, **options)

    with patch.object(psycopg.Cursor, "execute", counting):
        yield sent
