"""The effect of a verb on many records, and its report: for the admin, the API and the command."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet

from external.formatting import several
from jobs.states import Status

Verb = Callable[[Iterable[int]], Any]
"""`jobs.backlog.retry` or `cancel`."""

WORDS = {
    "stopping": "asked to stop", "finished": "had ended before", "missing": "gone",
    "superseded": "left to another record of the same subject",
}  # fmt: skip


def carried_out(
    verb: Verb, batches: Iterable[list[int]], progress: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Apply the verb batch by batch; `progress` gets the number of records so far. Returns the results as one: outcome
    → ids of records (for `superseded`: id → id).
    """
    result: dict[str, Any] = asdict(verb([]))
    done = 0
    for batch in batches:
        for name, part in asdict(verb(batch)).items():
            result[name] = result[name] | part if isinstance(part, dict) else result[name] + part
        done += len(batch)
        progress(done)
    return result


def describe(result: dict[str, Any]) -> str:
    """A result on one line; empty when it is about no record."""
    return ", ".join(f"{len(found):,} {WORDS.get(name, name)}" for name, found in result.items() if found)


def counted(records: QuerySet[Any]) -> "Counter[Status]":
    """The number of records in each status."""
    return Counter(map(Status, records.order_by().values_list("status", flat=True).iterator(10_000)))


def describe_counts(counts: "Counter[Status]") -> str:
    parts = ", ".join(f"{count:,} {status.label}" for status, count in sorted(counts.items()))
    return f"{several(counts.total(), 'record')} ({parts})"
