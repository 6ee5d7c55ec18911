"""The coming batches of a schedule: when each triggers and its events start. For `schedules preview` and the API."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from jobs.clock import database_clock
from schedules import stagger
from schedules.capacity import check
from schedules.capacity_report import messages
from schedules.models import Schedule, Stagger
from schedules.time_limits import LONGEST_SECONDS, within

LARGEST_COUNT = 1000


@dataclass(frozen=True)
class ComingBatch:
    """A trigger (aware UTC), the first and the last instant at which an event of its batch may start, and its window.

    `events` is None when a provider yields them: how many is known at the trigger. `closes_at`: None without a window.
    """

    trigger_at: datetime
    events: int | None
    first_at: datetime
    last_at: datetime
    closes_at: datetime | None


def coming_batches(
    schedule: Schedule,
    count: int = 10,
    start: datetime | None = None,
    now: datetime | None = None,
    seconds: float = LONGEST_SECONDS,
) -> list[ComingBatch]:
    """The first `count` batches at or after `start` (aware; left out: `now`). The schedule need not have been saved.

    Raises: ValueError for a count that is not 1 to 1000, when cron or zone cannot be read, or when it takes longer than
    `seconds`.
    """
    if not 1 <= count <= LARGEST_COUNT:
        raise ValueError(f"{count} batches cannot be shown; ask for 1 to {LARGEST_COUNT}")
    places = [0.0]
    if schedule.stagger == Stagger.EVEN and schedule.event_count:
        places = stagger.offsets(schedule.event_count, schedule.window_for, schedule.pk or 0)
    first, last = timedelta(seconds=min(places)), timedelta(seconds=max(places))
    window = timedelta(seconds=schedule.window_for)
    since = (start or now or database_clock()) - timedelta(microseconds=1)
    check_time, found = within(seconds, f"{count} batches: ask for fewer"), list[ComingBatch]()
    for at in islice(schedule.period.after(since), count):
        check_time()
        found.append(ComingBatch(at, schedule.event_count, at + first, at + last, at + window if window else None))
    return found


def as_json(schedule: Schedule, batches: list[ComingBatch], now: datetime | None = None) -> dict[str, Any]:
    """Instants as ISO 8601, in UTC and, by `*_local`, in the schedule's zone; `messages`: its capacity check."""
    return {
        "schedule": schedule.name,
        "enabled": schedule.enabled,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "event_count": schedule.event_count,
        "window_for": schedule.window_for,
        "stagger": schedule.stagger,
        "batches": [_batch_facts(batch, schedule.period.tzinfo) for batch in batches],
        "messages": [asdict(message) for message in messages(check(schedule, now))],
    }


def _batch_facts(batch: ComingBatch, zone: ZoneInfo) -> dict[str, Any]:
    instants = {name: getattr(batch, name) for name in ("trigger_at", "first_at", "last_at", "closes_at")}
    return {
        "events": batch.events,
        **{name: at.isoformat() if at else None for name, at in instants.items()},
        **{f"{name}_local": at.astimezone(zone).isoformat() if at else None for name, at in instants.items()},
    }
