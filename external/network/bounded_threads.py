"""Threads for calls of the system that may never return: looking up a name, looking at a folder on a dead share.

asyncio's own executor has a handful of threads; that many hung calls would hold up everything else that uses it, and
the worker's exit, since it waits for them. These threads are daemons, bounded in number, and live while there is work.
The same question (`key`) is asked once at a time: callers that ask it in the meantime share the answer. So a share that
hangs costs one thread, however often it is asked.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


class BoundedThreads:
    """Up to `limit` threads. A call that finds all of them busy waits for one, within its timeout."""

    def __init__(self, name: str, limit: int) -> None:
        self._name, self._limit = name, limit
        self._calls: deque[tuple[object, Future[Any], Callable[[], Any]]] = deque()
        self._under_way: dict[object, Future[Any]] = {}
        self._threads = 0
        self._lock = threading.Lock()

    @property
    def are_all_busy(self) -> bool:
        """True if a further call would have to wait for a thread."""
        return len(self._under_way) >= self._limit

    async def call(self, key: object, function: Callable[[], Result]) -> Result:
        """Call `function` in a thread and return its result. If cancelled, the call continues by itself.

        Raises: the errors of `function`.
        """
        return await asyncio.wrap_future(self._begin(key, function))

    def call_now(self, key: object, function: Callable[[], Result], timeout: float) -> Result:
        """The same, from a thread without an event loop. Raises: TimeoutError after `timeout` seconds."""
        return self._begin(key, function).result(timeout)

    def _begin(self, key: object, function: Callable[[], Result]) -> "Future[Result]":
        with self._lock:
            if (shared := self._under_way.get(key)) is not None:
                return shared
            answer: Future[Result] = Future()
            answer.set_running_or_notify_cancel()  # a caller that gives up does not cancel it for the others
            self._under_way[key] = answer
            self._calls.append((key, answer, function))
            if self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return answer

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._calls:
                    self._threads -= 1
                    return
                key, answer, function = self._calls.popleft()
            try:
                settle: Callable[[], None] = partial(answer.set_result, function())
            except BaseException as error:
                settle = partial(answer.set_exception, error)
            with self._lock:
                del self._under_way[key]
            settle()
