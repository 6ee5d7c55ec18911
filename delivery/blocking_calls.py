"""Calls that block for an unknown time, such as name look-ups and searches for credentials, kept off the event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

Found = TypeVar("Found")


async def aside(function: Callable[[], Found], at_its_end: Callable[[], object] = lambda: None) -> Found:
    """Call `function` in its own daemon thread and return its result. asyncio's executor has few threads, and Python
    waits for all of them when it exits. `at_its_end` is then called on the loop, even if the caller has gone.

    Raises: the exceptions of `function`; RuntimeError if this host allows no more threads.
    """
    loop = asyncio.get_running_loop()
    found: Future[Found] = Future()
    found.set_running_or_notify_cancel()

    def work() -> None:
        try:
            found.set_result(function())
        except Exception as error:
            found.set_exception(error)
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(at_its_end)

    try:
        threading.Thread(target=work, name="aside", daemon=True).start()
    except RuntimeError:
        at_its_end()
        raise
    return await asyncio.wrap_future(found)
