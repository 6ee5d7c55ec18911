"""Counts the statements that this process sends, by Django's cursors and by the lease protocol's."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yields a list that grows by the text of each statement, without BEGIN and COMMIT."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def counting(self: "psycopg.Cursor[Any]", query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(str(query))
        return execute(self, query, *arguments, **options)

    with patch.object(psycopg.Cursor, "execute", counting):
        yield sent


@contextmanager
def timed() -> Iterator[list[tuple[str, float]]]:
    """Yields a list that grows by the text and the seconds of each statement, including those that set a bound or
    begin and end a transaction."""
    sent: list[tuple[str, float]] = []
    execute = psycopg.Cursor.execute

    def timing(self: "psycopg.Cursor[Any]", query: Any, *arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(self, query, *arguments, **options)
        finally:
            sent.append((str(query), time.perf_counter() - began))

    with patch.object(psycopg.Cursor, "execute", timing):
        yield sent
