"""Threads for tests of what happens at the same moment, each with a database connection of its own."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TypeVar

import psycopg
from django.db import connection

from tests.waiting import PATIENCE, eventually

Result = TypeVar("Result")


def at_once(*actions: Callable[[], Result]) -> list[Result]:
    """Run `actions` at the same moment. Returns their results in the same order; raises what the first one raised."""
    barrier = Barrier(len(actions), timeout=PATIENCE)

    def start_together(action: Callable[[], Result]) -> Result:
        try:
            with connection.cursor() as cursor:  # connected before the start
                cursor.execute("SELECT 1")
            barrier.wait()
            return action()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(start_together, actions))


def beside(work: Callable[[], Result]) -> "Future[Result]":
    """Start `work` in a thread with a connection of its own."""

    def and_close() -> Result:
        try:
            return work()
        finally:
            connection.close()

    return ThreadPoolExecutor(1).submit(and_close)


def a_lock_is_waited_for() -> bool:
    """True if a session of this database waits for a lock of another."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # within a transaction it would not change
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])


def end_what_waits_for_a_lock() -> None:
    """The sessions of killed processes: what these gave the server to do it does yet, once it has the lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()",
            [int(PATIENCE * 1000)],
        )
        assert all(has_ended for (has_ended,) in cursor.fetchall())


def meeting() -> Callable[[], None]:
    """A meeting of two that lock: each calls it after its first lock, and continues once both are there or the other
    one waits."""
    there: list[None] = []

    def arrive() -> None:
        there.append(None)
        eventually(lambda: len(there) > 1 or a_lock_is_waited_for())

    return arrive


@contextmanager
def impatience(seconds: float = 2) -> Iterator[None]:
    """Whatever waits for a lock for so long fails instead."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{seconds * 1000:.0f}ms"])
        yield
        cursor.execute("RESET lock_timeout")


@contextmanager
def another_connection() -> Iterator[psycopg.Connection]:
    """A second connection to the test database, in a transaction that is rolled back at the end."""
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    with psycopg.connect(**{name: parameters[name] for name in names if parameters.get(name)}) as other:
        yield other
        other.rollback()
