"""The records that run at this moment, and their progress as far as it is known."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.template.defaultfilters import filesizeformat

from external.durations import span
from jobs.models import BacklogRecord
from operations.backlog import PROGRESS

SHOWN = 20


def at_work(now: datetime) -> list[dict[str, Any]]:
    """The records that run, the longest first, SHOWN at most: `running_for` in seconds; `bytes_done`, `bytes_total` and
    `files_done` are None where nothing is known, and so is `share`, in percent."""
    records = list(BacklogRecord.objects.running().order_by("started_at", "pk")[:SHOWN])
    known = progress_known(records)
    return [facts_of(record, known.get(record.pk, {}), now) for record in records]


def progress_known(records: Sequence[BacklogRecord]) -> dict[int, dict[str, Any]]:
    """Record → its progress, as `PROGRESS` names it, if it is known."""
    known: dict[int, dict[str, Any]] = {}
    for ask in PROGRESS if records else ():
        known |= ask([record.pk for record in records])
    return known


def as_text(facts: dict[str, Any]) -> str:
    """The progress, as `42 %, 1.2 GB of 2.9 GB, 1,200 files`; empty if it is not known."""
    done, total, files = facts["bytes_done"], facts["bytes_total"], facts["files_done"]
    parts = [f"{facts['share']} %"] if facts["share"] is not None else []
    if done:
        parts.append(f"{_size(done)} of {_size(total)}" if total else _size(done))
    if files:
        parts.append(f"{files:,} files")
    return ", ".join(parts)


def _size(number: int) -> str:
    return filesizeformat(number).replace("\xa0", " ")


def facts_of(record: BacklogRecord, known: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The same facts for one running record; `known`: its progress."""
    done, total = known.get("bytes_done"), known.get("bytes_total")
    since = record.started_at or now
    return {
        "id": record.pk, "kind": record.kind, "queue": record.queue, "subject": record.subject,
        "title": (record.payload.get("title") if isinstance(record.payload, dict) else "") or record.subject,
        "running_for": max(0.0, (now - since).total_seconds()), "bytes_done": done, "bytes_total": total,
        "files_done": known.get("files_done"), "share": min(100, 100 * done // total) if done and total else None,
    }  # fmt: skip


def row(facts: dict[str, Any]) -> tuple[object, ...]:
    """A row of the table in a terminal."""
    return facts["id"], f"{facts['kind']} {facts['title']}", facts["queue"], span(facts["running_for"]), as_text(facts)
