"""Events in every state, with the attempts that brought them there."""

from datetime import datetime, timedelta
from typing import Any

from jobs.models import Attempt, BacklogRecord
from jobs.states import FINISHED, AttemptOutcome, Status, WaitingFor
from schedules.events import beginning
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def make_event_schedule(**fields: Any) -> Schedule:
    """A schedule of ten events, delivered by callback."""
    values = {"kind": "http_callback", "provider": "", "event_count": 10}
    return make_schedule(**(values | fields))


def make_trigger(schedule: Schedule, trigger_at: datetime = NOON, **fields: Any) -> Trigger:
    """One that was seen and emitted a second after its launch time, and keeps what its batch was begun with."""
    values: dict[str, Any] = {
        "seen_at": trigger_at + SECOND,
        "emitted_at": trigger_at + SECOND,
        "events": schedule.event_count or 0,
    }
    values |= {"stagger": schedule.stagger, "late": schedule.late} | fields
    values.setdefault("begins_at", beginning(trigger_at, values["seen_at"]))
    return Trigger.objects.create(schedule=schedule, trigger_at=trigger_at, **values)


def make_event(
    schedule: Schedule, number: int = 1, status: Status = Status.READY, trigger_at: datetime = NOON, **fields: Any
) -> BacklogRecord:
    """Number `number` of a trigger; what has ended was tried a second after that."""
    event_id = f"{schedule.pk}-{trigger_at:%Y%m%dT%H%M%SZ}-{number}"
    payload = {
        "title": f"{schedule} {number}/10",
        "schedule": schedule.name,
        "trigger_at": f"{trigger_at:%Y-%m-%dT%H:%M:%SZ}",
        "event_id": event_id,
        "number": number,
        "count": 10,
        "endpoint": None,
        "url": "https://example.com/hook",
        "body": {"shard": number},
    }
    values: dict[str, Any] = {
        "kind": schedule.kind,
        "queue": "callbacks",
        "subject": event_id,
        "origin": schedule,
        "trigger_at": trigger_at,
        "run_after": trigger_at,
        "inserted_at": trigger_at,
        "payload": payload,
    }
    if status == Status.WAITING:
        values.update(waiting_for=WaitingFor.START, run_after=trigger_at + MINUTE)
    if status in FINISHED:
        values.update(started_at=trigger_at + SECOND, finished_at=trigger_at + 2 * SECOND)
    record = make_record(status, **(values | fields))
    return BacklogRecord.objects.get(pk=record.pk)


def attempt(record: BacklogRecord, number: int = 1, *, error: str = "", **facts: Any) -> Attempt:
    """One that took a second. Without an error it delivered."""
    outcome = AttemptOutcome.FAILED if error else AttemptOutcome.SUCCEEDED
    started_at = NOON + number * SECOND
    return Attempt.objects.create(
        record_id=record.pk, number=number, queue="callbacks", worker_id=1, started_at=started_at,
        ended_at=started_at + SECOND, outcome=outcome, error=error, facts=facts or None,
    )  # fmt: skip


def delivered(schedule: Schedule, number: int = 1, **fields: Any) -> BacklogRecord:
    event = make_event(schedule, number, Status.SUCCEEDED, **fields)
    attempt(event, status=200, seconds=0.123)
    return event


def refused(schedule: Schedule, number: int = 1, code: int | None = 500, **fields: Any) -> BacklogRecord:
    """Given up after one attempt; without a code there was no answer."""
    error = f"https://example.com:443 answered {code}" if code else "https://example.com:443 could not be reached"
    event = make_event(schedule, number, Status.FAILED, failures=1, last_error=error, **fields)
    attempt(event, error=error, **({"status": code, "seconds": 0.2} if code else {"seconds": 5.0}))
    return event
