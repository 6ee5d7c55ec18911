"""Telling idle workers that a queue has ready records: NOTIFY on the leading edge, then rarely.

Unlimited NOTIFY costs more than half of the insert throughput (commits queue up behind one lock). What the limit
swallows is found by those who were woken, who look again when it is over, and by everybody's poll.
"""

import time
from collections.abc import Callable
from threading import Lock

from django.db import connection, transaction

CHANNEL = "jobs_ready"
QUIET_SECONDS = 0.1
"""At most one NOTIFY per queue and process in this time."""

heard_here: Callable[[str], None] | None = None
"""Of the worker in this process, if there is one: it is told without the way over the database, and without limit."""

_lock = Lock()
_last_sent: dict[str, float] = {}


EVERY_QUEUE = "*"


def notify(queue: str) -> None:
    """Wake idle workers of `queue` when the running transaction commits (now, outside of one)."""
    transaction.on_commit(lambda: _tell(queue, queue))


def notify_at_once(queue: str) -> None:
    """The same without the limit: for what somebody waits for, as a source that has just checked in."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, queue])
    if (heard := heard_here) is not None:
        transaction.on_commit(lambda: heard(queue))


def notify_of_room(queue: str) -> None:
    """The same for what a throttle held up: a record of `queue` gave its place back. Others may share the throttle."""
    transaction.on_commit(lambda: _tell(queue, EVERY_QUEUE))


def _tell(here: str, elsewhere: str) -> None:
    if heard_here:
        heard_here(here)
    _send(elsewhere)


def _send(queue: str) -> None:
    with _lock:
        now = time.monotonic()
        if now - _last_sent.get(queue, -QUIET_SECONDS) < QUIET_SECONDS:
            return
        _last_sent[queue] = now
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, queue])


CANCEL_CHANNEL = "jobs_cancel"


def notify_cancelled(record_id: int) -> None:
    """Tell the worker that runs this record to stop it, when the running transaction commits. Never limited."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CANCEL_CHANNEL, str(record_id)])
