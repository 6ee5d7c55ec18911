"""Time limits of the database for requests of users: a search without an index in millions of rows would occupy one of
a few web threads, and the database as long as it takes.

The server itself gives up a statement that takes too long (`statement_timeout`). A server that accepts requests and
answers none, because it or a tunnel in front of it has stopped, gives up nothing, and its connection looks sound: this
process's own clock gives it up, or each web thread in turn would wait for it for ever.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import psycopg
from django.db import connection, transaction
from django.db.backends.signals import connection_created
from django.db.utils import OperationalError
from django.dispatch import receiver
from psycopg.abc import RV, PQGen
from psycopg.errors import QueryCanceled

PAGE_SECONDS = 10
"""Seconds of each statement of a page, or of an answer of the API."""

ON_ITS_WAY_SECONDS = 2.0
"""Seconds beyond the limit of a statement: until the server has reported that it gave up."""

SIGN_OF_LIFE_SECONDS = 5.0
"""Seconds until a server has answered the first query of a request on an existing connection; as long as a new
connection may take."""

FORM_SECONDS = 300.0
"""Seconds of each statement of a web process that has no other limit. Only a server that never answers
takes as long.
"""

_answer_within: ContextVar[float | None] = ContextVar("answer_within", default=None)


class TookTooLong(Exception):
    """A statement, or the whole of an answer, was given up."""


def was_given_up(error: BaseException) -> bool:
    """True if `error` is Django's for a statement that took too long, or was cancelled."""
    return isinstance(error.__cause__, QueryCanceled)


@contextmanager
def at_most(seconds: float, whole: float = math.inf) -> Iterator[Callable[[], None]]:
    """One transaction, each statement of which is given up after `seconds`, and that begins none once `whole` seconds
    have passed. Yields a function for loops between two statements, which gives up likewise. Raises: TookTooLong;
    django.db.Error, also for a silent server."""
    before, until = _answer_within.set(seconds + ON_ITS_WAY_SECONDS), time.monotonic() + whole

    def check_time() -> None:
        if time.monotonic() > until:
            raise TookTooLong(f"that took more than {whole:g} s")

    def executed(execute: Callable[..., Any], *statement: Any) -> Any:
        check_time()
        return execute(*statement)

    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = %s", [int(seconds * 1000)])
            with connection.execute_wrapper(executed):
                yield check_time
    except OperationalError as error:
        if not was_given_up(error):
            raise
        raise TookTooLong(f"that took more than {seconds:g} s") from error
    finally:
        _answer_within.reset(before)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when its server has not answered a question in time."""

    usual_seconds: ClassVar[float | None] = None
    """The limit of statements in this process that have no other; None waits for ever, as workers do."""

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """Raises: psycopg.OperationalError when nothing came in time."""
        if seconds := _answer_within.get() or self.usual_seconds:
            asking: Any = connection
            if asking.health_check_enabled and not asking.health_check_done:
                seconds = min(seconds, SIGN_OF_LIFE_SECONDS)
            gen = self._given_up_after(seconds, gen)
        return super().wait(gen, *args, **kwargs)

    def _given_up_after(self, seconds: float, gen: PQGen[RV]) -> PQGen[RV]:
        """`gen` with a limit. psycopg asks it a few times a second whether its answer has come."""
        heard_at = time.monotonic()
        try:
            waits_for = next(gen)
            while True:
                if is_there := (yield waits_for):
                    heard_at = time.monotonic()
                elif time.monotonic() > heard_at + seconds:
                    self.close()
                    raise psycopg.OperationalError(f"the server has not answered for {seconds:g} s")
                waits_for = gen.send(is_there)
        except StopIteration as end:
            found: RV = end.value
            return found


@receiver(connection_created)
def _is_line(connection: Any, **_: object) -> None:
    """Each connection of Django's is one; Django offers no way to name a class."""
    if type(connection.connection) is psycopg.Connection:
        connection.connection.__class__ = BoundedConnection


@contextmanager
def by_index() -> Iterator[None]:
    """Let an index lead to rows that are looked at in its order, in the transaction of the caller: of a value that few
    rows have the planner expects none, and reads the whole table."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        yield
        cursor.execute("SET LOCAL enable_seqscan TO DEFAULT")
