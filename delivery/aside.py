"""What blocks for an unknown time, beside the event loop: a look-up of a name, a search for credentials."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

Found = TypeVar("Found")


async def aside(function: Callable[[], Found], at_its_end: Callable[[], object] = lambda: None) -> Found:
    """What `function` returns, called in a daemon thread of its own: asyncio's executor has a handful of threads, and
    at its exit Python waits for all of them. `at_its_end` is called on the loop then, also when its caller has gone.

    Raises: what `function` raises; RuntimeError when this host lets no more threads begin.
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
