"""An event loop in a thread of its own, for servers of tests, that lets nothing stay open at its end."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tests.waiting import PATIENCE

Found = TypeVar("Found")

ROUNDS = 5
"""Turns of the loop, in which an accepted connection becomes a transport, or a closed one is let go."""


class LoopThread:
    """Runs until `end`."""

    def __init__(self) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Found]) -> Found:
        """The result of `work`, from another thread."""
        found: Future[Found] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return found.result(PATIENCE)

    def end(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`close` the server, cancel what runs and break every connection off."""
        self.run(self._end_all(close))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()

    async def _end_all(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # of a connection that was accepted and is not a transport yet when its server closes, the loop loses the socket
        await _rounds()
        await close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # a peer that reads no more, or is in the midst of its handshake, would hold its connection open for ever, and
        # some later test would be told of it; the loop has no public list of them
        for transport in list(self.loop._transports.values()):  # type: ignore[attr-defined]
            transport.abort()
        await _rounds()


async def _rounds() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
