"""The events of a batch: the content of each, and when it starts. Nothing here reads the database.

An event carries all that its delivery needs, so an edit of its schedule does not affect events on the backlog.

Nor does it affect the rest of a batch that has begun. The first chunk of a batch, unless it is the whole batch, writes
the configuration to the trigger as the *frozen config*, from which all later chunks are made; the last chunk clears it.

* The retry policy is not frozen. An edit of it applies to emitted events as well (`rescheduling.follow`), so later
  chunks take the policy that the schedule names now, and the whole batch has the same one.
* Endpoint and throttle are frozen, but can be deleted once the schedule names others. Without its endpoint an event
  fails, and without its throttle it is not capped, whichever chunk it came with.
"""

import json
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from jobs.handlers import registry
from schedules import templates
from schedules.models import Late, Overlap, Schedule, Stagger
from schedules.stagger import offsets
from schedules.unemitted_triggers import TriggerStep, UnemittedTrigger
from schedules.watermarks import ON_TIME_FOR

FORMAT = "%Y%m%dT%H%M%SZ"

LONGEST_VALUE = 64
"""The most characters that fill a gap: an id, a number, an instant."""


@dataclass(frozen=True)
class EventBatch:
    """A batch: all that the events of a trigger have in common.

    `begins_at`: the earliest start; `drops_at`: when events that were not delivered are dropped, None if never;
    `event_ids`: the beginning of their ids, which their numbers follow.
    """

    schedule: Schedule
    trigger_at: datetime
    begins_at: datetime
    closes_at: datetime | None
    drops_at: datetime | None
    event_ids: str
    template: templates.CompiledTemplate

    @property
    def count(self) -> int:
        return self.schedule.event_count or 0

    @property
    def longest_payload(self) -> int:
        """The most characters of the payload of one of its events, within a few."""
        return sum(map(len, self.template.texts)) + LONGEST_VALUE * len(self.template.gaps)

    def milliseconds(self, first: int, last: int) -> list[int]:
        """The milliseconds from `begins_at` to the start of each of the events `first` … `last`."""
        if self.schedule.stagger != Stagger.EVEN:
            return [0] * (last + 1 - first)
        until = self.drops_at or self.begins_at + timedelta(seconds=self.schedule.window_for)
        window_for = (until - self.begins_at).total_seconds()
        return [round(seconds * 1000) for seconds in offsets(last, window_for, self.schedule.pk, first)]

    def payloads(self, first: int, milliseconds: list[int]) -> list[str]:
        """The payloads of as many events, from number `first` on, as JSON."""
        prefix, fill = self.event_ids, self.template.fill
        if any(name == "run_after" for name, _ in self.template.gaps):
            starts = [instant_text(self.begins_at + timedelta(milliseconds=after)) for after in milliseconds]
        else:
            starts = [""] * len(milliseconds)
        return [fill(f"{prefix}{number}", number, start) for number, start in enumerate(starts, first)]


class BatchPart(NamedTuple):
    """The events `first` … `last` of a batch, written out for a queue.

    `characters`: the most that their payloads have, within a few. `step`: how far the trigger is once they are on the
    backlog.
    """

    batch: EventBatch
    queue: str
    first: int
    last: int
    milliseconds: list[int]
    payloads: list[str]
    characters: int
    step: TriggerStep


def part_of(
    trigger: UnemittedTrigger, schedule: Schedule, now: datetime, room: int, characters: int
) -> BatchPart | str:
    """The next events of a trigger of `schedule`: up to `room` of them, with at most `characters`, but one at least.

    Returns a text if it emits nothing more: the reason.
    """
    schedule = as_begun(schedule, trigger.frozen_config)
    seen_at = _seen_at(trigger, schedule, now)
    try:
        batch = batch_of(schedule, trigger.trigger_at, seen_at)
    except ValueError as error:
        return f"its payload does not render: {error}"
    if not trigger.events and batch.drops_at and batch.drops_at <= now:
        return "its window had closed before it could be emitted"
    fitting = min(room, max(1, characters // batch.longest_payload))
    first, last = trigger.events + 1, max(trigger.events, min(batch.count, trigger.events + fitting))
    milliseconds = batch.milliseconds(first, last)
    complete = last >= batch.count
    # the first of several parts writes down the configuration for the rest of the batch
    frozen_config = frozen_config_of(schedule) if first == 1 and not complete else None
    step = TriggerStep(
        trigger.id, last, batch.closes_at, seen_at, batch.begins_at, schedule.stagger, schedule.late, frozen_config,
        complete,
    )  # fmt: skip
    payloads = batch.payloads(first, milliseconds)
    queue = registry.kind(schedule.kind).home_queue
    return BatchPart(batch, queue, first, last, milliseconds, payloads, batch.longest_payload * len(payloads), step)


def _seen_at(trigger: UnemittedTrigger, schedule: Schedule, now: datetime) -> datetime:
    """The instant when the trigger's turn came: for one that waited for an earlier batch, the present."""
    return now if schedule.overlap == Overlap.QUEUE and not trigger.events else trigger.seen_at


def batch_of(schedule: Schedule, trigger_at: datetime, seen_at: datetime) -> EventBatch:
    """The batch of a trigger of `schedule`. `seen_at`: when an emitter found it due.

    Raises: ValueError when its payload does not render.
    """
    closes_at = trigger_at + timedelta(seconds=schedule.window_for) if schedule.window_for else None
    return EventBatch(
        schedule=schedule,
        trigger_at=trigger_at,
        begins_at=beginning(trigger_at, seen_at),
        closes_at=closes_at,
        drops_at=closes_at if schedule.late == Late.DROP else None,
        event_ids=f"{schedule.pk}-{trigger_at.astimezone(UTC):{FORMAT}}-",
        template=_compiled(schedule, trigger_at),
    )


def beginning(trigger_at: datetime, seen_at: datetime) -> datetime:
    """The instant from which the events of a trigger start.

    A late batch, after downtime or after it has waited for another, begins when its trigger was seen: events that were
    to be spread over an hour must not all start at once because that hour has passed.
    """
    return seen_at.replace(microsecond=0) if seen_at - trigger_at > ON_TIME_FOR else trigger_at


def instant_text(instant: datetime) -> str:
    """An instant such as 2026-03-02T09:00:00Z, with milliseconds where there are any."""
    timespec = "milliseconds" if instant.microsecond else "seconds"
    return instant.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def _compiled(schedule: Schedule, trigger_at: datetime) -> templates.CompiledTemplate:
    values: dict[str, templates.Value] = {
        "schedule": schedule.name,
        "trigger_at": instant_text(trigger_at),
        "count": schedule.event_count or 0,
        "zone": schedule.zone,
    }
    payload = {
        "title": "$schedule $number/$count",
        "schedule": "$schedule",
        "trigger_at": "$trigger_at",
        "event_id": "$event_id",
        "number": "$number",
        "count": "$count",
        "endpoint": schedule.endpoint_id,
        "url": None,  # its endpoint has it: the path of many services is a secret, and payloads are shown
        "body": schedule.payload_template,
    }
    return templates.compiled(payload, values)


FROZEN_FIELDS = (
    "name", "zone", "kind", "event_count", "endpoint_id", "payload_template", "window_for", "stagger", "late",
    "throttle_id", "priority",
)  # fmt: skip
"""Everything that a batch and its records take from their schedule, except the retry policy."""


def frozen_config_of(schedule: Schedule) -> str:
    """The fields of a schedule that its batches are made of, as JSON."""
    return json.dumps({field: getattr(schedule, field) for field in FROZEN_FIELDS})


def as_begun(schedule: Schedule, frozen_config: str | None) -> Schedule:
    """A copy of `schedule` as it was when the batch began, never to be saved; or `schedule`, if nothing is frozen."""
    if frozen_config is None:
        return schedule
    begun = copy(schedule)
    for field, value in json.loads(frozen_config).items():
        setattr(begun, field, value)
    return begun
