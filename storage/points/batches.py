"""Lists of bounded size, made from any number of things."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Each = TypeVar("Each")
OF_A_LIST = 50_000
"""The most paths that one rclone is given: it keeps them in memory."""


def batches(
    things: Iterable[Each], most: int, room: float = float("inf"), size_of: Callable[[Each], int] = lambda each: 0
) -> Iterator[list[Each]]:
    """Yield the things in their order, at most `most` at a time, whose sizes together are at most `room`. A thing that
    is larger by itself is alone in its list.
    """
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
