"""How long the database may work at what a person asked for: a search without an index in millions of rows would hold
up one of a few web threads, and costs the database as much as it takes."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.utils import OperationalError
from psycopg.errors import QueryCanceled

PAGE_SECONDS = 10
"""Of each statement of a page, or of an answer of the API."""


class TookTooLong(Exception):
    """A statement was given up."""


def was_given_up(error: BaseException) -> bool:
    """Whether `error` is Django's of a statement that took too long, or was cancelled."""
    return isinstance(error.__cause__, QueryCanceled)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """One transaction, each statement of which is given up after `seconds`. Raises: TookTooLong."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = %s", [int(seconds * 1000)])
            yield
    except OperationalError as error:
        if not was_given_up(error):
            raise
        raise TookTooLong(f"that took more than {seconds:g} s") from error
