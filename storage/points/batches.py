"""Many things, as lists of bounded size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Each = TypeVar("Each")
OF_A_LIST = 50_000
"""Paths that one rclone is given: it keeps them in memory."""


def batches(
    things: Iterable[Each], most: int, room: float = float("inf"), size_of: Callable[[Each], int] = lambda each: 0
) -> Iterator[list[Each]]:
    """In their order, at most so many at a time, whose sizes together are no more than `room`: of what is larger by
    itself, one."""
    batch: list[Each] = []
    size = 0
    for each in things:
        if batch and (len(batch) >= most or size + size_of(each) > room):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += size_of(each)
    if batch:
        yield batch
