"""Database calls of async handlers: a few threads for each queue, each with a connection that it keeps.

`sync_to_async` has one thread for the whole process: one statement there that waited for a lock held up the questions
of all queues. Here such a wait takes one thread of its queue, for some seconds.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.prepared_statements import limit_lock_waits_in_this_thread

THREADS = 2
"""Threads of a queue, each with a connection: their work takes milliseconds."""
LOCK_SECONDS = 2.0
"""Seconds for which a statement may wait for a lock; then it fails with 55P03, which is *busy*
(`jobs/database_errors.py`).
"""

Given = ParamSpec("Given")
Found = TypeVar("Found")


class _Threads(ThreadPoolExecutor):
    """The threads of one queue."""

    def __init__(self, queue: str) -> None:
        super().__init__(THREADS, f"database-{queue}", initializer=self._begin)
        self._connections: list[BaseDatabaseWrapper] = []

    def _begin(self) -> None:
        limit_lock_waits_in_this_thread(LOCK_SECONDS)
        held = connections[DEFAULT_DB_ALIAS]
        held.inc_thread_sharing()  # closed by whoever ends the threads
        self._connections.append(held)

    def end(self) -> None:
        self.shutdown(wait=False, cancel_futures=True)
        for held in self._connections:
            held.close()


_of_queue: dict[str, _Threads] = {}


def open_for(queue: str) -> None:
    """Give the handlers of a queue that this process serves separate threads. They start when they are needed."""
    _of_queue[queue] = _Threads(queue)


def close_for(queue: str) -> None:
    """Begin nothing more there, and break off the calls under way."""
    if threads := _of_queue.pop(queue, None):
        threads.end()


async def ask_database(
    queue: str, function: Callable[Given, Found], /, *args: Given.args, **kwargs: Given.kwargs
) -> Found:
    """Call `function` in a thread of `queue`, or, in a process that serves no queue, in the one thread of
    `sync_to_async`. Returns its result.

    Raises: the exceptions of `function`.
    """
    threads = _of_queue.get(queue)
    if threads is None:
        return await sync_to_async(function)(*args, **kwargs)
    return await asyncio.wrap_future(threads.submit(function, *args, **kwargs))
