"""Records, attempts and summaries by name: labels for statuses, durations in seconds; and how long an attempt took."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from jobs.durations import span
from jobs.formatting import moment
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status, WaitingFor
from operations.backlog.attention import attention
from operations.backlog.deliveries import deliveries, shown_payload
from operations.backlog.summary import Summary
from operations.models import AttemptEntry
from operations.silences import SILENCES

SECRET = ("lease_token",)
"""Who knows the token of a lease can settle for its worker."""


def record_facts(records: Iterable[BacklogRecord]) -> list[dict[str, Any]]:
    """The columns of each record, without its lease token, and its `delivery`: None of what is no event."""
    rows = list(records)
    delivered = deliveries(rows)
    return [_facts(row) | {"delivery": delivered.get(row.pk)} for row in rows]


def standing_error(record: BacklogRecord) -> str:
    """Its last error, unless it has succeeded since: its attempts have that."""
    return "" if record.status == Status.SUCCEEDED else record.last_error


def _facts(record: BacklogRecord) -> dict[str, Any]:
    names = [field.attname for field in BacklogRecord._meta.concrete_fields if field.attname not in SECRET]
    facts: dict[str, Any] = {name: getattr(record, name) for name in names}
    facts["schedule_id"] = facts.pop("origin_id")
    facts["status"] = Status(record.status).label
    facts["last_error"] = standing_error(record)
    facts["waiting_for"] = None if record.waiting_for is None else WaitingFor(record.waiting_for).label
    return facts | {"payload": shown_payload(record)}


def attempt_facts(attempt: Attempt | AttemptEntry) -> dict[str, Any]:
    """The columns of an attempt by name; `record`: the id of its record."""
    names = ("number", "queue", "worker_id", "started_at", "ended_at", "error", "facts")
    facts = {name: getattr(attempt, name) for name in names}
    return facts | {"record": attempt.record_id, "outcome": AttemptOutcome(attempt.outcome).label}


def summary_facts(summary: Summary) -> dict[str, Any]:
    """A summary by name, with what needs attention."""
    facts = asdict(summary) | {"attention": attention(summary)}
    for queue in facts["queues"]:
        queue["at_least"] = sorted(queue["at_least"])
    return facts


def as_json(value: Any) -> str:
    """Raises: TypeError for what is no fact."""
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)


def took(attempt: Attempt | AttemptEntry) -> str:
    """How long it took, for people; of silences that were compacted how many there were, and until when."""
    if times := (attempt.facts or {}).get(SILENCES):
        return f"{times:,} times until {moment(attempt.ended_at)}"
    return span((attempt.ended_at - attempt.started_at).total_seconds())
