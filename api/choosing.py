"""Which records a request is about, and how long an answer about them may take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from api.errors import ApiError, not_valid
from jobs.states import Status
from operations.backlog.selection import Filters
from operations.patience import PAGE_SECONDS, TookTooLong, at_most
from operations.web.database_away import DATABASE_AWAY_SECONDS

ASK_FOR_LESS = "ask for less: name a status, a kind or a queue, and leave out `error`"

NOT_KNOWN = "is none that is known"


def filters_of(asked: Any) -> Filters:
    """What a request says about records. Raises: ApiError (422) for a kind or queue that nobody knows."""
    status = getattr(asked, "status", None)
    filters = Filters(
        kind=asked.kind,
        queue=asked.queue,
        statuses=(Status[status.upper()],) if status else (),
        subject=getattr(asked, "subject", None),
        error=getattr(asked, "error", None),
    )
    for name in ("kind", "queue"):
        try:
            Filters(**{name: getattr(filters, name)}).check()
        except ValueError as error:
            raise not_valid([(name, NOT_KNOWN)], "GET /api/records tells those of each record") from error
    return filters


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
