"""Metrics of each source, as `/metrics?sources=1` has them: three series, for each policy that it is under.

prometheus_client makes an object of each sample and writes some 60,000 of them a second: with 100,000 sources that is
longer than half of the time that Prometheus waits by default. These lines are written here, in its form; a test holds
both equal.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from prometheus_client.utils import floatToGoString

from fleet.status import of_all
from sources.domain.status import BY_RANK, Status
from sources.models import Assignment, Source

AT_ONCE = 10_000
"""Rows that are read at once."""


def lines(now: datetime) -> Iterator[str]:
    """The text, piece by piece, for all sources that are not retired."""
    ranks = of_all.ranks(now)
    yield _head("source_status", "1 for the status of a source.")
    labels: dict[int, str] = {}
    rows = Source.objects.filter(retired_at=None).order_by("name").values_list("pk", "name", "paused_at")
    for pk, name, paused_at in rows.iterator(AT_ONCE):
        status = Status.PAUSED if paused_at else BY_RANK[ranks.get(pk, Status.PROTECTED.rank)]
        labels[pk] = f'source="{_escaped(name)}"'
        yield f'backupsched_source_status{{{labels[pk]},status="{status}"}} 1.0\n'
    yield from _dates(labels)


def _dates(labels: dict[int, str]) -> Iterator[str]:
    """`labels`: by the ids of the sources."""
    fields = ("source_id", "policy__schedule__name", "last_backup_at", "next_backup_at")
    last, following = list[str](), list[str]()
    policies: dict[str, str] = {}
    for source, policy, last_at, next_at in Assignment.objects.order_by().values_list(*fields).iterator(AT_ONCE):
        if source not in labels:  # it is retired
            continue
        if policy not in policies:
            policies[policy] = f'policy="{_escaped(policy)}"'
        named = f"{{{policies[policy]},{labels[source]}}}"
        if last_at:
            last.append(f"backupsched_source_last_backup_timestamp_seconds{named} {_seconds(last_at)}\n")
        if next_at:
            following.append(f"backupsched_source_next_backup_timestamp_seconds{named} {_seconds(next_at)}\n")
    yield _head("source_last_backup_timestamp_seconds", "Start of its last backup.")
    yield from last
    yield _head("source_next_backup_timestamp_seconds", "When its next backup is due.")
    yield from following


def _head(name: str, text: str) -> str:
    return f"# HELP backupsched_{name} {text}\n# TYPE backupsched_{name} gauge\n"


def _escaped(label: Any) -> str:
    return str(label).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _seconds(instant: datetime) -> str:
    text: str = floatToGoString(instant.timestamp())  # type: ignore[no-untyped-call]
    return text
