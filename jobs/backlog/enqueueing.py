"""Putting records on the backlog in bulk."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import DataError, transaction

from jobs import throttles
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.models import RetryPolicy
from jobs.prepared_statements import execute
from jobs.priorities import MAX_PRIORITY
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify

ROWS_A_STATEMENT = 2000
MAX_SUBJECT = 200
MAX_NAME = 50
NOT_JSON = (TypeError, ValueError, RecursionError)

# Subjects and payloads come as one JSON array each: the server takes them apart in a fraction of the time that
# adapting the elements of an array one by one takes here. The order of insertion is the claim's "prior order".
INSERT = f"""
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, waiting_for, run_after, closes_at, priority, failures, last_error,
        attempt, retry_policy_id, lane, inserted_at)
SELECT %(kind)s::text, %(queue)s::text, r.subject, r.payload,
       CASE WHEN r.run_after > %(now)s::timestamptz THEN {Status.WAITING} ELSE {Status.READY} END,
       CASE WHEN r.run_after > %(now)s::timestamptz THEN {WaitingFor.START} END,
       COALESCE(r.run_after, %(now)s::timestamptz), r.closes_at, COALESCE(r.priority, %(priority)s::int), 0, '', 0,
       %(retry_policy_id)s::bigint, %(lane)s::int, %(now)s::timestamptz
  FROM ROWS FROM (
       jsonb_array_elements_text(%(subjects)s::jsonb), jsonb_array_elements(%(payloads)s::jsonb),
       unnest(%(run_after)s::timestamptz[]), unnest(%(closes_at)s::timestamptz[]), unnest(%(priorities)s::int[]))
       WITH ORDINALITY AS r(subject, payload, run_after, closes_at, priority, number)
 ORDER BY r.number
    ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to put on the backlog. `run_after` and `closes_at` are aware instants; a priority of None means the
    call's.
    """

    subject: str
    payload: dict[str, Any] = field(default_factory=dict)
    run_after: datetime | None = None
    priority: int | None = None
    closes_at: datetime | None = None


Item = NewRecord | tuple[str, dict[str, Any]]


def enqueue(
    kind: str,
    items: Iterable[Item],
    *,
    queue: str | None = None,
    priority: int = 0,
    retry_policy_id: int | None = None,
    lane: int = 0,
    now: datetime | None = None,
) -> int:
    """Put records on the backlog, all in one transaction. Returns the number of new ones.

    `items`: NewRecords, or pairs of subject and payload. A subject that has an unfinished record of this kind is
    left out. Records with a `run_after` in the future wait for it; the rest are ready. `queue`: by default the one
    where its kind starts. `lane`: that of the throttles that the records name (`jobs.throttles.lane_of`).

    Raises: ValueError naming the subject of a record that cannot be stored; then no record is stored.
    django.db.OperationalError if two callers put the same subjects there at the same moment in different orders; then
    no record is stored either.
    """
    home = queue if queue is not None else registry.kind(kind).home_queue
    _check_call(kind, home, priority)
    facts = {"kind": kind, "queue": home, "priority": priority, "retry_policy_id": retry_policy_id, "lane": lane}
    remaining = iter(items)
    with transaction.atomic():
        throttles.lock_lanes([lane])
        if retry_policy_id is not None and not RetryPolicy.objects.filter(pk=retry_policy_id).exists():
            raise ValueError(f"there is no retry policy {retry_policy_id}")
        facts["now"] = now or database_clock()
        inserted = sum(_insert(batch, facts) for batch in _batches(remaining))
        if inserted:
            notify(home)
    return inserted


def _batches(items: Iterator[Item]) -> Iterator[list[NewRecord]]:
    while batch := list(islice(items, ROWS_A_STATEMENT)):
        yield [item if isinstance(item, NewRecord) else NewRecord(*item) for item in batch]


def _insert(records: list[NewRecord], facts: dict[str, Any]) -> int:
    for record in records:
        _check(record)
    try:
        columns = {
            "subjects": json.dumps([record.subject for record in records]),
            "payloads": json.dumps([record.payload for record in records], allow_nan=False),
            "run_after": _column(records, "run_after"),
            "closes_at": _column(records, "closes_at"),
            "priorities": _column(records, "priority"),
        }
        with transaction.atomic():
            return execute(INSERT, {**facts, **columns}).rowcount
    except (DataError, *NOT_JSON) as error:
        raise _named(records, error) from error


def _column(records: Sequence[NewRecord], name: str) -> list[Any]:
    """One field of all records; empty, which the server pads with NULL, when no record has it."""
    values = [getattr(record, name) for record in records]
    return values if any(value is not None for value in values) else []


def _named(records: list[NewRecord], error: Exception) -> ValueError:
    """An error that names the refused subject: JSON that Python can write may hold a NUL or half a character."""
    for record in records:
        try:
            values = {"subject": json.dumps(record.subject), "payload": json.dumps(record.payload, allow_nan=False)}
            with transaction.atomic():
                execute("SELECT %(subject)s::jsonb #>> '{}', %(payload)s::jsonb", values)
        except NOT_JSON as refused:
            return ValueError(f"the payload of {record.subject!r} is not JSON: {refused}")
        except DataError as refused:
            return ValueError(f"the record {record.subject!r} cannot be stored: {str(refused).splitlines()[0]}")
    return ValueError(f"these records cannot be stored: {error}")


def _check(record: NewRecord) -> None:
    subject = record.subject
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        raise ValueError(f"a subject is a text of 1 to {MAX_SUBJECT} characters, not {subject!r:.250}")
    if not isinstance(record.payload, dict):
        raise ValueError(f"the payload of {subject!r} is not a JSON object: {record.payload!r:.100}")
    for name in ("run_after", "closes_at"):
        instant = getattr(record, name)
        if instant is not None and instant.tzinfo is None:
            raise ValueError(f"{name} of {subject!r} has no time zone: {instant}")
    if record.priority is not None and abs(record.priority) > MAX_PRIORITY:
        raise ValueError(f"the priority of {subject!r} must be between ±{MAX_PRIORITY}, not {record.priority}")


def _check_call(kind: str, queue: str, priority: int) -> None:
    for what, name in (("kind", kind), ("queue", queue)):
        if not 0 < len(name) <= MAX_NAME or "\0" in name:
            raise ValueError(f"the name of a {what} has 1 to {MAX_NAME} characters, not {name!r:.60}")
    if abs(priority) > MAX_PRIORITY:
        raise ValueError(f"the priority must be between ±{MAX_PRIORITY}, not {priority}")
