"""Which records a request is about, and how long an answer about them may take."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from api.errors import ApiError, not_valid
from operations.backlog.selection import check_names
from operations.patience import PAGE_SECONDS, TookTooLong, at_most
from operations.web.answers import DATABASE_AWAY_SECONDS

ASK_FOR_LESS = "ask for less: name a status, a schedule, a kind or a queue, and leave out `error`"

NOT_KNOWN = "is none that is known"


def check_known(kind: str | None, queue: str | None) -> None:
    """Raises: ApiError (422) for a kind or queue that neither the settings nor any record knows."""
    for name, asked in (("kind", (kind, None)), ("queue", (None, queue))):
        try:
            check_names(*asked)
        except ValueError as error:
            raise not_valid([(name, NOT_KNOWN)], "GET /api/records tells those of each record") from error


@contextmanager
def patiently(ask_for_less: str = ASK_FOR_LESS) -> Iterator[None]:
    """Give up what takes too long, for one transaction, which sees the rows and what belongs to them at one instant.

    Raises: ApiError (503), which says how to ask for less.
    """
    outermost = not connection.in_atomic_block
    try:
        with at_most(PAGE_SECONDS):
            if outermost:
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield
    except TookTooLong as error:
        headers = {"Retry-After": str(DATABASE_AWAY_SECONDS)}
        raise ApiError(503, f"the answer took more than {PAGE_SECONDS} s", ask_for_less, headers) from error
