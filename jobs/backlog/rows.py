"""Locking what a verb changes, and chopping long lists.

Rows first and in id order, then the advisory locks of their exclusive keys: the order of the settle, so that neither
can wait for the other in a circle.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from jobs.prepared import execute

BATCH = 1000
"""Records a transaction: a running worker that wants one of them waits some milliseconds."""

LOCK = """
SELECT id, kind, subject, queue, status, exclusive_key, breaker_id, lane
  FROM jobs_backlogrecord
 WHERE id = ANY(%(ids)s::bigint[])
 ORDER BY id
   FOR UPDATE
"""


class LockedRow(NamedTuple):
    """A record as it is now, and stays until the transaction ends."""

    id: int
    kind: str
    subject: str
    queue: str
    status: int
    exclusive_key: str | None
    breaker_id: int | None
    lane: int


def lock(ids: Iterable[int]) -> list[LockedRow]:
    """Lock these records until the transaction ends. Returns those that exist, in id order."""
    return [LockedRow(*row) for row in execute(LOCK, {"ids": sorted(set(ids))}).fetchall()]


def in_batches(ids: Iterable[int], size: int = BATCH) -> Iterator[list[int]]:
    """The ids in ascending order, at most `size` at a time: a verb is one transaction, and a long one holds up work."""
    ordered = iter(sorted(set(ids)))
    while batch := list(islice(ordered, size)):
        yield batch
