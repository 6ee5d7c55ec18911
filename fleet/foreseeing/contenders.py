"""Due assignments, with their places in the queue and the habits of their sources; and the units and throttles of the
queue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from fleet.foreseeing.habits import Habit, Today
from fleet.foreseeing.presence import DAY, Sighting, presence_of
from fleet.foreseeing.runs import Contender
from fleet.foreseeing.sightings import sightings_since
from jobs.models import BacklogRecord, Lane, Throttle
from jobs.states import Status, WaitingFor
from jobs.zones import in_zone, zone_of
from operations.backlog.at_work import progress_known
from operations.backlog.ends import progress_of
from operations.backlog.starts import QueueState, Runner, Waiter
from operations.backlog.surroundings import Surroundings
from operations.backlog.throttling import Head
from sources.models import Assignment, Source
from sources.planning.names import BACKUPS, KIND, subject_of

HISTORY_DAYS = 21
ENDS_WITHIN = timedelta(hours=36)
"""The time from now in which a period must end: later periods are not looked at."""
BY_TIME = (WaitingFor.START, WaitingFor.WINDOW, WaitingFor.BACKOFF, WaitingFor.SNOOZE)
"""Waits that end by time alone."""
MOST_LANES = 50
CHECKS_IN_WITHIN = 3_600.0
"""Seconds: a source that is seen for longer without a check-in no longer has an agent."""


@dataclass(frozen=True)
class DueAssignment:
    """An assignment that is due. `ready`: its source has answered, and it waits for a unit."""

    contender: Contender
    source: str
    source_id: int
    policy: str
    ready: bool = False


def queue_state(now: datetime) -> QueueState | None:
    """The units, the running records, and the throttles; None if nothing starts."""
    around = Surroundings([], now)
    if around.on_hold or BACKUPS in around.paused or not around.units[BACKUPS]:
        return None
    lanes = dict(Lane.objects.order_by("pk").values_list("pk", "throttle_ids")[:MOST_LANES])
    most = dict(Throttle.objects.values_list("pk", "max_in_flight"))
    return QueueState(now, around.units[BACKUPS], running_backups(now), (), lanes, most)


def running_backups(now: datetime) -> list[Runner]:
    """The backups that run, with their progress."""
    records = list(BacklogRecord.objects.running().filter(queue=BACKUPS).defer("payload", "last_error"))
    known = progress_known(records)
    return [
        Runner(
            each.pk, each.lane, each.started_at or now, each.expected_seconds if each.due_day else None,
            progress_of(known.get(each.pk, {}), each.started_at, each.attempt, now),
        )
        for each in records
    ]  # fmt: skip


def due_assignments(now: datetime, check_time: Callable[[], object] = lambda: None) -> list[DueAssignment]:
    """Assignments on the backlog whose period ends soon. `check_time` is called for each, and may raise."""
    related = Assignment.objects.active().select_related("source", "policy__schedule").order_by("pk")
    assignments = {subject_of(each.pk): each for each in related if not each.policy.problem}
    records = BacklogRecord.objects.filter(kind=KIND).unfinished().defer("payload", "last_error")
    paired = [(each, assignments[each.subject]) for each in records if each.subject in assignments]
    ends = {policy.pk: policy.schedule.period.next_after(now) for policy in {a.policy for _, a in paired}}
    paired = [pair for pair in paired if ends[pair[1].policy_id] <= now + ENDS_WITHIN]
    since = (now - timedelta(days=HISTORY_DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)
    seen = sightings_since(since, {each.pk: each.source_id for _, each in paired}) if paired else {}
    found = []
    for record, each in paired:
        check_time()
        learnt = _learnt(each, seen.get(each.source_id, []), since, now)
        ready = record.status == Status.READY and record.queue == BACKUPS
        contender = Contender(
            each.pk, _waiter(record, now), ends[each.policy_id], learnt.habit, _today(learnt.today, ready=ready),
            each.policy.recheck_after,
        )  # fmt: skip
        found.append(DueAssignment(contender, each.source.name, each.source_id, str(each.policy), ready))
    return found


class _LearntHabit(NamedTuple):
    habit: Habit
    today: Today


def _learnt(assignment: Assignment, seen: Sequence[Sighting], since: datetime, now: datetime) -> _LearntHabit:
    zone = zone_of(assignment.policy.schedule.zone)
    first, local = in_zone(since, zone), in_zone(now, zone)
    midnight = (DAY - (first.hour * 3600 + first.minute * 60 + first.second)) % DAY
    of_day = local.hour * 3600.0 + local.minute * 60.0 + local.second
    dawn = (now - since).total_seconds() - of_day
    days = max(0, int(dawn // DAY))
    earlier = [each for each in seen if each.begins < dawn]
    begins = min((each.begins for each in earlier), default=dawn)
    skipped = max(0, int((begins - midnight) // DAY))
    stays = presence_of(earlier, days, midnight, wakes=bool(assignment.source.mac_address))
    habit = Habit.of(stays, days, midnight, (first.weekday() + (midnight > 0)) % 7, skipped)
    there = max((each.ends for each in seen if each.there and each.ends >= dawn), default=None)
    silent = any(not each.there and each.ends >= dawn and each.ends > (there or 0.0) for each in seen)
    seen_at = None if there is None else max(0.0, there - dawn)
    return _LearntHabit(
        habit, Today(of_day, local.weekday(), seen_at, silent, _reports(assignment.source, seen, since))
    )


def _reports(source: Source, seen: Sequence[Sighting], since: datetime) -> bool:
    """True if it has an agent that checks in whenever it is there: it was not seen for long without that."""
    if source.checked_in_at is None:
        return False
    until = (source.checked_in_at - since).total_seconds() + CHECKS_IN_WITHIN
    return all(each.begins <= until for each in seen if each.there)


def _today(today: Today, *, ready: bool) -> Today:
    return Today(today.now, today.weekday, today.now) if ready else today


def _waiter(record: BacklogRecord, now: datetime) -> Waiter | None:
    """The record as it would wait if its source were there; None if it runs."""
    if record.status == Status.RUNNING and record.queue == BACKUPS:
        return None
    rank, tried = (record.rank_day, record.tried_at) if record.failures else (record.due_day, None)
    by_time = record.status == Status.WAITING and record.waiting_for in BY_TIME
    head = Head(record.lane, record.pk, min(record.priority, 100), rank, tried, record.expected_seconds, "")
    ready_at = max(now, record.run_after) if by_time else now
    return Waiter(head, ready_at, record.closes_at, is_first=record.due_day is None)
