"""The targets that one event loop knows (`delivery/targets.py`), for as long as they are fresh."""

import asyncio
from typing import NamedTuple

from delivery.handlers import QUEUE
from delivery.targets import Host, Key, Target, load
from jobs.worker.database_threads import ask_database

FRESH_SECONDS = 1.0
MOST_KEPT = 10_000
"""Targets. With more of them all are forgotten, and looked up again as they are needed."""


class Known(NamedTuple):
    """`target` is why there is none, if it is a text. `until`: in the event loop's time."""

    target: Target | str
    until: float


def now(loop: asyncio.AbstractEventLoop) -> float:
    """The event loop's time."""
    return loop.time()


class Targets:
    """Finds targets for coroutines of one event loop. What many want meanwhile is asked in one go."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._known: dict[Key, Known] = {}
        self._hosts: dict[str, Host] = {}
        self._wanted: dict[Key, asyncio.Future[Target | str]] = {}
        self._loader: asyncio.Task[None] | None = None

    async def find(self, key: Key) -> Target | str:
        """The target of `key`, or why nothing can be delivered there. Raises: django.db.Error."""
        known = self._known.get(key)
        if known is not None and now(self._loop) < known.until:
            return known.target
        wanted = self._wanted.get(key)
        if wanted is None:
            wanted = self._wanted[key] = self._loop.create_future()
            if self._loader is None:
                self._loader = self._loop.create_task(self._load())
        return await asyncio.shield(wanted)

    def __len__(self) -> int:
        return len(self._known)

    async def _load(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                await self._load_all(wanted)
        finally:
            self._loader = None

    async def _load_all(self, wanted: "dict[Key, asyncio.Future[Target | str]]") -> None:
        asked_at = now(self._loop)
        try:
            found = await ask_database(QUEUE, load, list(wanted), self._hosts)
        except BaseException as error:
            for future in wanted.values():
                if isinstance(error, Exception):
                    future.set_exception(error)
                    future.exception()  # seen: perhaps no coroutine waits for it any more
                else:
                    future.cancel()
            if not isinstance(error, Exception):
                raise
            return
        if len(self._known) > MOST_KEPT:
            self._known.clear()
            self._hosts.clear()
        for key, target in found.items():
            self._known[key] = Known(target, asked_at + FRESH_SECONDS)
            wanted[key].set_result(target)
