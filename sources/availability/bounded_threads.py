"""Threads for calls of the system that may never return: looking up a name, looking at a folder on a dead share.

asyncio's own executor has a handful of threads; as many hung calls would hold up everything else that uses it, and the
worker's exit, since it waits for them. These threads are daemons, bounded in number, and start when they are needed.
The same question (`key`) is asked once at a time: whoever asks it meanwhile shares the answer. So a share that hangs
costs one thread, however often it is asked.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

IDLE_SECONDS = 30.0
"""An idle thread ends after this time."""

Result = TypeVar("Result")


class BoundedThreads:
    """Up to `limit` threads. What finds all of them busy waits for one, within its own time."""

    def __init__(self, name: str, limit: int) -> None:
        self._name, self._limit = name, limit
        self._calls: SimpleQueue[tuple[object, Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._under_way: dict[object, Future[Any]] = {}
        self._threads = 0
        self._lock = threading.Lock()

    @property
    def are_all_busy(self) -> bool:
        """Whether a further call would have to wait for a thread."""
        return len(self._under_way) >= self._limit

    async def call(self, key: object, function: Callable[[], Result]) -> Result:
        """Return what `function` returns, called in a thread. Cancelled, it leaves the call to itself.

        Raises: what `function` raises.
        """
        loop = asyncio.get_running_loop()
        awaited: asyncio.Future[Result] = loop.create_future()

        def tell(answer: "Future[Result]") -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                loop.call_soon_threadsafe(_pass_on, answer, awaited)

        self._begin(key, function).add_done_callback(tell)
        return await awaited

    def call_now(self, key: object, function: Callable[[], Result], timeout: float) -> Result:
        """The same, from a thread without an event loop. Raises: TimeoutError after `timeout` seconds."""
        return self._begin(key, function).result(timeout)

    def _begin(self, key: object, function: Callable[[], Result]) -> "Future[Result]":
        with self._lock:
            if (shared := self._under_way.get(key)) is not None:
                return shared
            answer: Future[Result] = Future()
            answer.set_running_or_notify_cancel()  # nobody who gave up cancels it for the others
            self._under_way[key] = answer
            self._calls.put((key, answer, function))
            if self._threads < min(self._limit, len(self._under_way)):
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return answer

    def _work(self) -> None:
        while call := self._next():
            key, answer, function = call
            try:
                result = function()
            except BaseException as error:
                self._end(key)
                answer.set_exception(error)
            else:
                self._end(key)
                answer.set_result(result)

    def _next(self) -> tuple[object, "Future[Any]", Callable[[], Any]] | None:
        try:
            return self._calls.get(timeout=IDLE_SECONDS)
        except Empty:
            with self._lock:
                if not self._calls.empty():
                    return self._calls.get_nowait()
                self._threads -= 1
            return None

    def _end(self, key: object) -> None:
        with self._lock:
            del self._under_way[key]


def _pass_on(answer: "Future[Result]", awaited: "asyncio.Future[Result]") -> None:
    if awaited.done():  # whoever asked gave up
        return
    if error := answer.exception():
        awaited.set_exception(error)
    else:
        awaited.set_result(answer.result())
