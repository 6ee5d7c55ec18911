"""Rows that a step cannot deal with are set aside and named, so that they never stop the step for the others.

A row that was written outside of the forms stays as wrong as it is from tick to tick. It is named once in each process
and left alone for a minute at a time, and the doctor shows it for as long as it is wrong.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from django.db import transaction

from jobs.database_errors import DatabaseTrouble, trouble_of

log = logging.getLogger(__name__)

LOOK_AGAIN_AFTER = timedelta(minutes=1)

MOST_NAMED = 10_000
"""The most texts that are remembered as logged; beyond that all are forgotten, and may be logged once more."""

Item = TypeVar("Item", bound=Hashable)

_named: set[str] = set()


def name_once(what: str, error: BaseException | None = None) -> None:
    """Log what is set aside and why, once in this process; with the traceback of an `error` that may be the code's
    fault."""
    if what not in _named:
        if len(_named) >= MOST_NAMED:
            _named.clear()
        _named.add(what)
        log.error("%s", what, exc_info=error)


class SetAside:
    """Ids that this process leaves alone for a minute. Another host may be able to deal with them."""

    def __init__(self) -> None:
        self._until: dict[int, datetime] = {}

    def put(self, ids: Iterable[int], now: datetime) -> None:
        self._until = {each: until for each, until in self._until.items() if until > now}
        self._until.update(dict.fromkeys(ids, now + LOOK_AGAIN_AFTER))

    def at(self, now: datetime) -> list[int]:
        """The ids that are set aside at `now`."""
        return [each for each, until in self._until.items() if until > now]


def isolate(
    items: Sequence[Item], do: Callable[[Sequence[Item]], object], name: Callable[[Item], str]
) -> dict[Item, str]:
    """Call `do` with all of `items` in a transaction; if it raises, with each half, down to single items.

    Returns the items for which it raises alone, each with its error; `name` names the action for the log. Raises: an
    error that no item caused, since the database is down or busy.
    """
    try:
        with transaction.atomic():
            do(items)
    except Exception as error:
        if trouble_of(error) is not DatabaseTrouble.OURS:
            raise
        if len(items) > 1:
            middle = len(items) // 2
            return isolate(items[:middle], do, name) | isolate(items[middle:], do, name)
        message = f"{name(items[0])}: {type(error).__name__}: {error}"
        name_once(message, error)
        return {items[0]: message}
    return {}
