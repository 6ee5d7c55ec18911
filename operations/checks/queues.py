"""settings.JOBS["QUEUES"]: the queues, with how many records a worker runs at once and what feeds what."""

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage

from operations.checks.messages import error, meant

QUEUE_KEYS = ("concurrency", "feeds")
MAX_QUEUE_NAME = 50
"""The length of the column `queue`."""


def wrong_with_queues(queues: Any) -> Iterator[CheckMessage]:
    """What no worker could serve."""
    if not isinstance(queues, dict):
        yield error("E003", f"JOBS['QUEUES'] is {queues!r:.80}, not a dict", "write {'name': {'concurrency': 4}}")
        return
    for name, row in queues.items():
        where = f"JOBS['QUEUES'][{name!r}]"
        if not isinstance(name, str) or not 0 < len(name) <= MAX_QUEUE_NAME:
            yield error("E003", f"{where}: that is no name", f"use 1 to {MAX_QUEUE_NAME} characters")
        if not isinstance(row, dict):
            yield error("E003", f"{where} is {row!r:.80}, not a dict", "write {'concurrency': 4}")
            continue
        for key in row:
            if key not in QUEUE_KEYS:
                yield error("E002", f"{where} has the unknown key {key!r}", meant(key, QUEUE_KEYS))
        yield from _queue(where, name, row, queues)


def _queue(where: str, name: str, row: dict[Any, Any], queues: dict[Any, Any]) -> Iterator[CheckMessage]:
    concurrency, feeds = row.get("concurrency", 1), row.get("feeds")
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        yield error(
            "E004",
            f"{where}['concurrency'] is {concurrency!r}",
            "give a whole number, 1 or more: how many of its records one worker runs at once",
        )
    if feeds is not None and (feeds == name or feeds not in queues):
        wrong = "itself" if feeds == name else f"the unknown queue {feeds!r}"
        yield error("E005", f"{where}['feeds'] names {wrong}", "name the queue that takes its records over, or none")
