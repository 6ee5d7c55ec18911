"""Locks the rows that a verb changes, and splits long lists.

Rows first and in id order, then the advisory locks of their exclusive keys: the order of the settle, so that neither
can wait for the other in a circle.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from jobs.models import BacklogRecord

BATCH = 1000
"""Records per transaction: a running worker that needs one of them waits a few milliseconds."""


def lock(ids: Iterable[int]) -> list[BacklogRecord]:
    """Lock these records until the transaction ends. Returns those that exist, in id order, without large columns."""
    rows = BacklogRecord.objects.filter(pk__in=set(ids)).order_by("pk").select_for_update()
    return list(rows.defer("payload", "last_error"))


def in_batches(ids: Iterable[int], size: int = BATCH) -> Iterator[list[int]]:
    """The ids in ascending order, at most `size` at a time: a verb is one transaction, and a long one holds up work."""
    ordered = iter(sorted(set(ids)))
    while batch := list(islice(ordered, size)):
        yield batch
