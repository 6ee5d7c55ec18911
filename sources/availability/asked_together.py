"""Lookups of many coroutines as one question to the database."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from jobs.worker.database_threads import ask_database

Question = TypeVar("Question")
Found = TypeVar("Found")


class AskedTogether(Generic[Question, Found]):
    """Like questions of one queue, from coroutines of one event loop: what comes while one is under way is asked in one
    go. `load(questions)`, called in a thread of the queue, returns the answers by key.
    """

    def __init__(self, queue: str, load: Callable[[list[Question]], dict[int, Found]]) -> None:
        self._queue, self._load = queue, load
        self._wanted: dict[int, tuple[Question, asyncio.Future[Found]]] = {}
        self._loading: asyncio.Task[None] | None = None

    async def find(self, key: int, question: Question) -> Found:
        """The answer to `question`. Raises: what `load` raises."""
        _, answer = self._wanted.setdefault(key, (question, asyncio.get_running_loop().create_future()))
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load_all())
        return await asyncio.shield(answer)

    async def _load_all(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            try:
                found = await ask_database(self._queue, self._load, [question for question, _ in wanted.values()])
            except Exception as error:
                for _, answer in wanted.values():
                    answer.set_exception(error)
                    answer.exception()  # seen: perhaps no coroutine waits for it any more
            else:
                for key, (_, answer) in wanted.items():
                    answer.set_result(found[key])
        self._loading = None
