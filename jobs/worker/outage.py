"""Reactions of the worker's threads to a database that is away: each waits for it, and the log has each reason once."""

import logging
import threading

from django.db import connection

from external.formatting import first_line

log = logging.getLogger(__name__)

_lock = threading.Lock()
_waiting: set[threading.Thread] = set()
_reported: set[str] = set()


def begins(error: Exception) -> None:
    """This thread met a database that is away: it begins with a new connection when it tries again."""
    connection.close()
    reason = first_line(str(error))
    with _lock:
        _waiting.add(threading.current_thread())
        is_new = reason not in _reported
        _reported.add(reason)
    if is_new:
        log.warning("waiting for the database: %s", reason)


def is_over() -> None:
    """Note that the database has answered this thread."""
    if threading.current_thread() not in _waiting:
        return
    with _lock:
        _waiting.discard(threading.current_thread())
        is_last = not _waiting
        if is_last:
            _reported.clear()
    if is_last:
        log.warning("the database answers again")
