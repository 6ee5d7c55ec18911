"""The backlog of a fleet in memory: the work of the product's statements, by the pure functions that they share.

emission     `sources/planning/emission.py`, EMIT
tick         `jobs/tick.py`: promotion; `jobs/window_ends.py`: windows
shortage     `jobs/worker/claimer.py`, SHORTAGE; `sources/availability/wake.py`, WAKING_UP; `giving_way.py` next to it
settling     `jobs/transitions.py`, and for the assignment `backups/copying/results.py`
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count, takewhile
from typing import cast

from jobs import priorities, retries
from jobs.order import demoted_by_failure
from jobs.outcomes import ClaimedRecord, Failed, Handoff, Outcome, Succeeded, Unavailable
from jobs.states import Status, WaitingFor
from jobs.transitions import transition
from jobs.worker.claimer import Shortage
from jobs.zones import in_zone, zone_of
from simulation.lookahead.records import MemoryRecord, ReadyQueue, Timeline
from simulation.lookahead.world import FleetRows
from sources.availability import giving_way
from sources.availability.wake import REMEMBERED_FOR, SETTLED_WITHIN_SECONDS
from sources.domain import wake_hours
from sources.domain.due import due_day, next_backup_at
from sources.models import Assignment, Policy, Source
from sources.planning.names import AVAILABILITY, BACKUPS, subject_of


class MemoryWorld:
    """A `BacklogWorld` on heaps."""

    def __init__(
        self,
        rows: FleetRows,
        units: int,
        make_queue: Callable[[], ReadyQueue] = ReadyQueue,
    ) -> None:
        self._units = units
        self._assignments = rows.assignments
        self._policies = rows.policies
        self._policy_of = {assignment.pk: assignment.policy for assignment in rows.assignments}
        self._zone_of = {number: policy.schedule.zone for number, policy in self._policy_of.items()}
        self._of_policy: dict[int, list[Assignment]] = defaultdict(list)
        for assignment in rows.assignments:
            self._of_policy[assignment.policy_id].append(assignment)
        self._unfinished: dict[int, MemoryRecord] = {}
        self._ids = count(1)
        self._ready: dict[str, ReadyQueue] = defaultdict(make_queue)
        self._waiting, self._closing = Timeline(), Timeline()
        self._running: dict[str, int] = defaultdict(int)
        self._asked: dict[int, MemoryRecord] = {}
        """The records whose sources are being asked."""
        self._waking: dict[int, Source] = {}
        """Sources that were sent a packet lately, by its instant."""
        self._woken: set[int] = set()
        """The numbers of unfinished records that are asked before others, since their source was sent a packet."""
        self._triggers = {policy.pk: policy.schedule.next_trigger_at for policy in rows.policies}
        self._periods: dict[int, tuple[datetime, datetime]] = {}
        """Policy → an instant, and the first trigger after it and after all instants up to there."""

    def begin(self, now: datetime) -> None:
        self._emit(self._assignments, now)

    def next_at(self) -> datetime | None:
        comes = (self._waiting.next_at(), self._closing.next_at(), *self._triggers.values())
        return min((each for each in comes if each is not None), default=None)

    def tick(self, now: datetime) -> None:
        triggered = [policy for policy in self._policies if (at := self._triggers[policy.pk]) and at <= now]
        if triggered:
            due = [assignment for policy in triggered for assignment in self._of_policy[policy.pk]]
            self._emit(sorted(due, key=lambda assignment: assignment.pk), now)
            for policy in triggered:
                self._triggers[policy.pk] = policy.schedule.period.next_after(now)
        for record in self._waiting.take(now):
            record.status, record.waiting_for, record.exclusive_key, record.run_after = Status.READY, None, None, now
            self._place(record)
        self._close_windows(now)

    def has_ready(self, queue: str) -> bool:
        return self._ready[queue].count > 0

    def shortage(self, feeder: str, now: datetime) -> Shortage:
        missing = self._units - self._running[BACKUPS] + (self._units + 1) // 2 - self._ready[BACKUPS].count
        return Shortage(missing, 1, self._ready[feeder].woken)

    def claim(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]:
        return [self._run(record, now) for record in self._ready[queue].take(limit)]

    def claim_woken(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]:
        return [self._run(record, now) for record in self._ready[queue].take(limit, woken_only=True)]

    def assignment(self, number: int) -> Assignment:
        return self._assignments[number - 1]

    def assignments(self, numbers: Sequence[int]) -> Mapping[int, Assignment]:
        return {number: self._assignments[number - 1] for number in numbers}

    def unfinished(self) -> Sequence[MemoryRecord]:
        """The records that there are at this moment."""
        return list(self._unfinished.values())

    def waking_up(self, source: Source, now: datetime) -> int:
        self._forget_packets(now - REMEMBERED_FOR)
        settled_since = now - timedelta(seconds=SETTLED_WITHIN_SECONDS)
        latest = takewhile(lambda number: self._woken_at(number) > settled_since, reversed(self._waking))
        # a unit that finds its answer too old hands a record back: a source that was woken may be waking up once more
        found = {*latest, *(number for number in self._woken if number in self._waking)}
        return len(found - {source.pk})

    def _forget_packets(self, until: datetime) -> None:
        for number in [*takewhile(lambda number: self._woken_at(number) <= until, self._waking)]:
            del self._waking[number]

    def gives_way(self, record: ClaimedRecord, now: datetime) -> bool:
        if not giving_way.is_new(cast("MemoryRecord", record).inserted_at, now):
            return False
        others = {each.id: each for each in (*self._asked.values(), *self._remembered(now))}
        return any(
            giving_way.comes_before(each, self._assignments[each.number - 1], record, now) for each in others.values()
        )

    def _remembered(self, now: datetime) -> Iterable[MemoryRecord]:
        """The records of sources that were sent a packet lately, until a unit takes them."""
        for number in self._woken:
            if number in self._waking and now - REMEMBERED_FOR < self._woken_at(number) <= now:
                yield self._unfinished[number]

    def _woken_at(self, number: int) -> datetime:
        return cast("datetime", self._waking[number].last_woken_at)

    def note_packet(self, source: Source, now: datetime) -> None:
        source.last_woken_at = now
        self._waking.pop(source.pk, None)
        self._waking[source.pk] = source  # the latest

    def settle(self, results: Sequence[tuple[ClaimedRecord, Outcome]], now: datetime) -> None:
        settled = [(cast("MemoryRecord", record), outcome) for record, outcome in results]
        from_queues = [record.queue for record, _ in settled]
        for record, outcome in settled:
            self._become(record, outcome, now)
        for (record, outcome), queue in zip(settled, from_queues, strict=True):
            self._write_down(record, outcome, queue, now)

    def _become(self, record: MemoryRecord, outcome: Outcome, now: datetime) -> None:
        change = transition(
            record.as_claimed,
            outcome,
            home_queue=AVAILABILITY,
            rule=retries.DEFAULT,
            zone=self._zone_of[record.number],
            usual_priority=0,
            inserted_at=record.inserted_at,
            now=now,
        )
        self._ended(record)
        record.status, record.waiting_for, record.run_after = change.status, change.waiting_for, change.run_after
        record.queue, record.exclusive_key = change.queue, change.exclusive_key
        record.priority, record.rank_day, record.tried_at = change.priority, change.rank_day, change.tried_at
        record.failures = change.failures
        record.first_failure_at, record.last_failure_at = change.first_failure_at, change.last_failure_at
        self._place(record)

    def _write_down(self, record: MemoryRecord, outcome: Outcome, from_queue: str, now: datetime) -> None:
        assignment = self._assignments[record.number - 1]
        match outcome:
            case Handoff(queue=queue) if queue == BACKUPS:
                assignment.last_contacted_at = now
                assignment.seen_hours |= wake_hours.seen(now, now)
            case Unavailable() if from_queue == BACKUPS:
                assignment.vanished_at, assignment.losses = now, assignment.losses + 1
                assignment.seen_hours |= wake_hours.seen(record.as_claimed.started_at, now)
            case Failed():
                assignment.failures += 1
                assignment.first_failure_at = assignment.first_failure_at or now
            case Succeeded():
                self._write_success(assignment, record.as_claimed.started_at, now)

    def _write_success(self, assignment: Assignment, started_at: datetime, now: datetime) -> None:
        assignment.last_backup_at = started_at
        assignment.last_backup_for = (now - started_at).total_seconds()
        assignment.last_contacted_at = now
        assignment.seen_hours |= wake_hours.seen(started_at, now)
        assignment.failures = assignment.losses = 0
        assignment.first_failure_at = assignment.vanished_at = None
        assignment.next_backup_at = self._next_backup_at(assignment.policy, started_at, now)
        if assignment.next_backup_at <= now:
            self._emit([assignment], now)

    def _next_backup_at(self, policy: Policy, started_at: datetime, now: datetime) -> datetime:
        """The same for all that start in one period: looked up for each, it took a quarter of the time."""
        known = self._periods.get(policy.pk)
        if known is None or not known[0] <= started_at < known[1]:
            known = started_at, next_backup_at(policy.schedule.period, started_at, now)
            self._periods[policy.pk] = known
        return known[1]

    def _emit(self, assignments: Iterable[Assignment], now: datetime) -> None:
        openings = dict[int, tuple[datetime, datetime | None]]()  # of those needed: all took two thirds of the time
        for assignment in assignments:
            if assignment.pk in self._unfinished or (assignment.next_backup_at and assignment.next_backup_at > now):
                continue
            if (policy := assignment.policy).pk not in openings:
                openings[policy.pk] = policy.opening(now)
            opens_at, closes_at = openings[policy.pk]
            zone = policy.schedule.zone
            day = due_day(assignment.next_backup_at and min(assignment.next_backup_at, now), zone)
            rank_day = day
            if assignment.failures > 0 or assignment.loss.demoted_since:
                today = in_zone(now, zone_of(zone)).date()
                rank_day = demoted_by_failure(day, today, max(assignment.failures, 1))
            waits = opens_at > now
            record = MemoryRecord(
                id=next(self._ids),
                number=assignment.pk,
                subject=subject_of(assignment.pk),
                queue=AVAILABILITY,
                status=Status.WAITING if waits else Status.READY,
                waiting_for=WaitingFor.WINDOW if waits else None,
                inserted_at=now,
                run_after=opens_at,
                closes_at=closes_at,
                due_day=day,
                rank_day=rank_day,
                expected_seconds=assignment.expected_seconds,
                failures=assignment.failures,
                first_failure_at=assignment.first_failure_at if assignment.failures else None,
            )
            self._unfinished[assignment.pk] = record
            self._place(record)

    def _close_windows(self, now: datetime) -> None:
        openings = {}
        for record in self._closing.take(now):
            policy = self._policy_of[record.number]
            if policy.pk not in openings:
                openings[policy.pk] = policy.opening(now)
            self._queue_of(record).left(record)
            record.run_after, record.closes_at = openings[policy.pk]
            record.queue, record.exclusive_key = AVAILABILITY, None
            waits = record.run_after > now
            record.status = Status.WAITING if waits else Status.READY
            record.waiting_for = WaitingFor.WINDOW if waits else None
            self._place(record)

    def _run(self, record: MemoryRecord, now: datetime) -> ClaimedRecord:
        self._queue_of(record).left(record)
        record.status, record.attempt, record.started_at = Status.RUNNING, record.attempt + 1, now
        record.moves += 1
        self._running[record.queue] += 1
        if record.queue == AVAILABILITY:
            self._asked[record.id] = record
        return record.as_claimed

    def _ended(self, record: MemoryRecord) -> None:
        self._running[record.queue] -= 1
        self._asked.pop(record.id, None)

    def _queue_of(self, record: MemoryRecord) -> ReadyQueue:
        return self._ready[record.queue]

    def _place(self, record: MemoryRecord) -> None:
        """Put a record where time or a claim finds it in its new state."""
        record.moves += 1
        if record.status == Status.WAITING:
            self._waiting.put(record.run_after, record)
        elif record.status == Status.READY:
            self._queue_of(record).put(record)
            if record.closes_at is not None:
                self._closing.put(record.closes_at, record)
        else:
            del self._unfinished[record.number]
        is_asked_first = record.queue != BACKUPS and priorities.is_woken(record.priority)
        if is_asked_first and record.number in self._unfinished:
            self._woken.add(record.number)
        else:
            self._woken.discard(record.number)
