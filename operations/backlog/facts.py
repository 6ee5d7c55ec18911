"""Records, attempts and summaries by name: labels for statuses, durations in seconds; and the duration of an attempt.

An event has more than any record: its endpoint, its launch instant, and the answer of its receiver.
"""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from delivery.addresses import origin_of
from delivery.models import Endpoint, EndpointKind
from external.durations import span
from external.formatting import moment
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status, WaitingFor
from operations.backlog.attention import attention
from operations.backlog.summary import BacklogSummary
from operations.models import AttemptEntry
from operations.silences import SILENCES
from schedules.models import Late, Stagger, Trigger
from schedules.stagger import offsets

SECRET = ("lease_token",)
"""The token of a lease: with it one can settle in the name of its worker."""


def record_facts(records: Iterable[BacklogRecord]) -> list[dict[str, Any]]:
    """The columns of each record, without its lease token, and its `delivery`: None for a record that is
    not an event.
    """
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


def summary_facts(summary: BacklogSummary) -> dict[str, Any]:
    """A summary by name, with its problems."""
    facts = asdict(summary) | {"attention": attention(summary)}
    for queue in facts["queues"]:
        queue["at_least"] = sorted(queue["at_least"])
    return facts


def took(attempt: Attempt | AttemptEntry) -> str:
    """The duration of an attempt as text; for compacted silences their number and the instant of the last one."""
    if times := (attempt.facts or {}).get(SILENCES):
        return f"{times:,} times until {moment(attempt.ended_at)}"
    return span((attempt.ended_at - attempt.started_at).total_seconds())


def is_event(record: BacklogRecord) -> bool:
    return record.kind in EndpointKind.values


def deliveries(records: Iterable[BacklogRecord]) -> dict[int, dict[str, Any]]:
    """Event's id → its delivery by name: instants are aware, durations are seconds. Two queries for all events.

    `records`: the rows of `selection.with_answers`. `launch_at` is None if it is no longer known; `lag`: from then to
    the start of its last attempt.
    """
    events = [record for record in records if is_event(record)]
    launches, names = launch_instants(events), endpoint_names(events)
    return {event.pk: _delivery(event, launches[event.pk], names) for event in events}


def _delivery(event: BacklogRecord, launch: datetime | None, names: dict[int, str]) -> dict[str, Any]:
    schedule, endpoint = event.payload.get("schedule"), _number(event.payload.get("endpoint"), int)
    answer = getattr(event, "answer", None) or {}
    return {
        "schedule": None if schedule is None else str(schedule),
        "launch_at": launch,
        "lag": (event.started_at - launch).total_seconds() if launch and event.started_at else None,
        "code": _number(answer.get("status"), int),
        "seconds": _number(answer.get("seconds"), int | float),
        "endpoint": endpoint,
        "endpoint_name": names.get(endpoint) if endpoint else None,
    }


def _number(value: Any, kind: Any) -> Any:
    """`value` if it is a number: a program may have put anything under the names that emission uses."""
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def endpoint_names(events: Iterable[BacklogRecord]) -> dict[int, str]:
    """Endpoint's id → its name, for the endpoints of these events."""
    ids = {pk for event in events if (pk := _number(event.payload.get("endpoint"), int))}
    return dict(Endpoint.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}


def shown_payload(record: BacklogRecord) -> Any:
    """Its payload, with only the origin of a URL: for many services the path is the secret."""
    payload = record.payload
    if not (is_event(record) and isinstance(payload, dict) and payload.get("url")):
        return payload
    return payload | {"url": origin_of(str(payload["url"])) or None}


def launch_instants(events: Iterable[BacklogRecord]) -> dict[int, datetime | None]:
    """Event's id → its launch instant, by the stagger that its batch was begun with; None if that is not known.

    A record does not keep that instant once it has started. One query for all events.
    """
    asked = list(events)
    emitted = [event for event in asked if event.trigger_at]
    triggers = {
        (trigger.schedule_id, trigger.trigger_at): trigger
        for trigger in Trigger.objects.defer("frozen_config").filter(
            schedule__in={event.origin_id for event in emitted if event.origin_id},
            trigger_at__in={event.trigger_at for event in emitted},
        )
    }
    return {
        event.pk: _launch_of(event, triggers.get((event.origin_id or 0, event.trigger_at or event.inserted_at)))
        for event in asked
    }


def _launch_of(event: BacklogRecord, trigger: Trigger | None) -> datetime | None:
    """The launch instant of an event of that trigger. If the trigger was seen late, it is counted from then."""
    if event.status == Status.WAITING and event.waiting_for == WaitingFor.START:
        return event.run_after
    if event.trigger_at is None:
        return event.inserted_at
    number = event.payload.get("number")
    if trigger is None or trigger.begins_at is None or not isinstance(number, int) or number < 1:
        return None
    begins_at, closes_at = trigger.begins_at, trigger.closes_at
    if trigger.stagger != Stagger.EVEN or closes_at is None:
        return begins_at
    if trigger.late != Late.DROP:
        closes_at = begins_at + (closes_at - trigger.trigger_at)
    window_for = (closes_at - begins_at).total_seconds()
    return begins_at + timedelta(seconds=offsets(number, window_for, trigger.schedule_id, number)[0])
