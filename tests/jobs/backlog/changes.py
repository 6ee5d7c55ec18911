"""Helpers of the tests of verbs: changes, notifications to others, and locks that hold a verb up."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from django.db import connection

from jobs.models import BacklogRecord
from tests.factories import NOON
from tests.threads import another_connection
from tests.waiting import PATIENCE, eventually

LATER = NOON + timedelta(seconds=30)


KEY = "source:1"


def fresh(record: BacklogRecord) -> BacklogRecord:
    return BacklogRecord.objects.get(pk=record.pk)


def facts_of(record: BacklogRecord) -> dict[str, Any]:
    return {field.attname: getattr(fresh(record), field.attname) for field in BacklogRecord._meta.concrete_fields}


def changed(record: BacklogRecord, act: Callable[[], object]) -> dict[str, Any]:
    """The columns of `record` that `act` changes, with their new values."""
    before = facts_of(record)
    act()
    return {name: value for name, value in facts_of(record).items() if value != before[name]}


@contextmanager
def listening(channel: str) -> Iterator[Callable[[], list[str]]]:
    """Yields what tells the payloads of the notifications on `channel` so far."""
    with another_connection() as other:
        other.autocommit = True
        other.execute(f"LISTEN {channel}")
        yield lambda: [notification.payload for notification in other.notifies(timeout=PATIENCE, stop_after=1)]


@contextmanager
def held_up(act: Callable[[], Any], holder: psycopg.Connection) -> Iterator[Future[Any]]:
    """`act` in a thread with a connection of its own, once it waits for a lock that `holder` has."""

    def work() -> Any:
        try:
            return act()
        finally:
            connection.close()

    blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"

    def it_waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(blocked, [holder.info.backend_pid])
            return bool(cursor.fetchone()[0])

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        eventually(lambda: future.done() or it_waits())
        assert not future.done(), f"it did not wait: {future.result()}"
        yield future
