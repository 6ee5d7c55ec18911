"""What a step cannot deal with is set aside and named; it never stops the step for the others.

What is wrong with a row that was written past the forms does not change from tick to tick. It is named once in a
process, left alone for a minute at a time, and the doctor shows it for as long as it lasts.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from jobs.database_errors import Trouble, trouble_of

log = logging.getLogger(__name__)

LOOK_AGAIN_AFTER = timedelta(minutes=1)

MOST_NAMED = 10_000

Item = TypeVar("Item", bound=Hashable)

_named: set[str] = set()


def name_once(what: str, error: BaseException | None = None) -> None:
    """Log what is set aside and why, once in this process; with the traceback of an `error` that code may be guilty
    of."""
    if what not in _named:
        if len(_named) >= MOST_NAMED:
            _named.clear()
        _named.add(what)
        log.error("%s", what, exc_info=error)


class SetAside:
    """Ids that this process does not look at again before a minute is over. Another host may know better."""

    def __init__(self) -> None:
        self._until: dict[int, datetime] = {}

    def put(self, ids: Iterable[int], now: datetime) -> None:
        self._until = {each: until for each, until in self._until.items() if until > now}
        self._until.update(dict.fromkeys(ids, now + LOOK_AGAIN_AFTER))

    def at(self, now: datetime) -> list[int]:
        """Those that are set aside at `now`."""
        return [each for each, until in self._until.items() if until > now]


class Isolated(Generic[Item]):
    """Does the same for all of `items`, or else for each half, down to those alone for which it raises.

        isolated = Isolated(items, name)
        for some in isolated:
            with isolated:
                ...  # leaves nothing half done when it raises

    `bad` has these then, each with what was wrong; `name` says for the log what could not be done. A database that is
    away or busy is no fault of an item: its error is raised.
    """

    def __init__(self, items: Sequence[Item], name: Callable[[Item], str]) -> None:
        self._left, self._name = [items], name
        self._some: Sequence[Item] = ()
        self.bad: dict[Item, str] = {}

    def __iter__(self) -> Iterator[Sequence[Item]]:
        while self._left:
            self._some = self._left.pop()
            yield self._some

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception) or trouble_of(error) is not Trouble.OURS:
            return False
        if len(self._some) == 1:
            message = f"{self._name(self._some[0])}: {type(error).__name__}: {error}"
            name_once(message, error)
            self.bad[self._some[0]] = message
        else:
            middle = len(self._some) // 2
            self._left += [self._some[middle:], self._some[:middle]]
        return True
