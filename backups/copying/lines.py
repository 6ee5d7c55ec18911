"""Lines of the log of decisions about a settled attempt."""

from datetime import datetime
from typing import Any

from jobs import decisions
from jobs.outcomes import ClaimedRecord


def write_line(record: ClaimedRecord, what: str, text: str, now: datetime, **facts: Any) -> None:
    """Write the work on a record in the log, as a sentence about its source, with the facts that it rests on."""
    title = record.payload.get("title") or record.subject
    decisions.doing(what, f"{title}: {text}", record=record, facts={"attempt": record.attempt, **facts}, now=now)
