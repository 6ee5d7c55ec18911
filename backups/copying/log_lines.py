"""Lines of the log of decisions about a settled attempt."""

from datetime import datetime
from typing import Any

from jobs import decisions
from jobs.outcomes import ClaimedRecord


def line_of(record: ClaimedRecord, what: str, text: str, **facts: Any) -> decisions.RecordLine:
    """A line about the work on a record: a sentence about its source, with the facts behind it."""
    title = record.payload.get("title") or record.subject
    return decisions.RecordLine(record, what, f"{title}: {text}", {"attempt": record.attempt, **facts})


def write_line(record: ClaimedRecord, what: str, text: str, now: datetime, **facts: Any) -> None:
    """Write a line of the log."""
    line = line_of(record, what, text, **facts)
    decisions.log(line.what, line.text, record=record, facts=line.facts, now=now)
