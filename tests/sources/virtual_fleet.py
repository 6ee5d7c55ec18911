"""Sources that come, go and break, in virtual time and without a database.

Questions and copies are imagined: each ends as the conduct of its source says. What becomes of a record, and who comes
first, is decided by the functions that decide it of rows: outcomes, transitions, the claim order, check-ins.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

from backups.copying import losses
from jobs import retries
from jobs.order import claim_key
from jobs.outcomes import Failed, Handoff, Outcome, Succeeded, Unavailable
from jobs.states import Status, WaitingFor
from jobs.transitions import transition
from jobs.worker.claimer import ASKED_PER_PLACE
from schedules.models import Schedule
from sources.availability import check
from sources.models import Assignment, Policy, Source
from sources.planning.arrivals import place_after_a_check_in
from sources.planning.names import ARRIVALS, AVAILABILITY, BACKUPS
from tests.factories import make_claimed

ANSWER = timedelta(seconds=0.05)
TICK = timedelta(seconds=1)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class Conduct(NamedTuple):
    """The behaviour of a source. `ends`: how its copies end, each after `copy_seconds`: "good", "lost" (its host drops
    the connection), "hangs" (until the grace of its policy is over) or "fails". `checks_in_every`: seconds; None:
    never."""

    ends: str = "good"
    copy_seconds: float = 60.0
    answers: bool = True
    checks_in_every: float | None = None


def virtual_source(number: int, zone: str, *, first: bool = False, **policy: Any) -> Assignment:
    """An assignment that is in no database. `first`: it was never backed up."""
    rules = Policy(schedule=Schedule(name=zone, zone=zone), **policy)
    source = Source(pk=number, name=f"source {number}")
    return Assignment(pk=number, source=source, policy=rules, last_backup_at=None if first else LONG_AGO)


@dataclass
class VirtualFleet:
    """`units` execution units. Time stands at `now`."""

    units: int
    now: datetime
    conducts: dict[int, Conduct] = field(default_factory=dict)
    ran: list[int] = field(default_factory=list)
    """The assignments of which a copy has begun, in order."""
    _assignments: dict[int, Assignment] = field(default_factory=dict)
    _records: dict[int, SimpleNamespace] = field(default_factory=dict)
    _events: list[tuple[datetime, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: int = 0

    def add(self, assignment: Assignment, conduct: Conduct) -> None:
        self._assignments[assignment.pk] = assignment
        self.conducts[assignment.pk] = conduct
        if conduct.checks_in_every is not None:
            self._check_in(assignment)

    def emit(self, assignment: Assignment, due_at: datetime) -> None:
        """Put it on the backlog, unless it is there."""
        if assignment.pk not in self._records:
            zone = assignment.policy.schedule.period.tzinfo
            day = due_at.astimezone(zone).date() if assignment.last_backup_at else None
            values = make_claimed(id=assignment.pk, queue=AVAILABILITY, due_day=day, rank_day=day)._asdict()
            state = {"status": Status.READY, "waiting_for": None, "run_after": self.now, "inserted_at": self.now}
            self._records[assignment.pk] = SimpleNamespace(**values, **state)

    def run(self, until: datetime, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, up to `until` at the latest, or until `stop()` says so after an instant."""
        self._claim()
        while not stop() and (comes := self._next()) < until:
            self.now = max(self.now, comes)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            for record in self._in(Status.WAITING):
                if record.run_after <= self.now:
                    record.status, record.waiting_for = Status.READY, None
            self._claim()
        self.now = max(self.now, until) if not stop() else self.now

    def _next(self) -> datetime:
        waits = [record.run_after for record in self._in(Status.WAITING)]
        return min(
            [*waits, *(event[0] for event in self._events[:1])], default=datetime.max.replace(tzinfo=self.now.tzinfo)
        )

    def _in(self, status: Status, *queues: str) -> list[SimpleNamespace]:
        found = [
            each for each in self._records.values() if each.status == status and (not queues or each.queue in queues)
        ]
        return sorted(found, key=claim_key)

    def _claim(self) -> None:
        free = self.units - len(self._in(Status.RUNNING, BACKUPS))
        missing = free + (self.units + 1) // 2 - len(self._in(Status.READY, BACKUPS))
        for queue in (ARRIVALS, AVAILABILITY):
            for record in self._in(Status.READY, queue)[: max(0, ASKED_PER_PLACE * missing)]:
                self._begin(record, ANSWER, self._answer)
        for record in self._in(Status.READY, BACKUPS)[:free]:
            conduct, grace = self.conducts[record.id], self._assignments[record.id].policy.vanish_grace
            self.ran.append(record.id)
            takes = conduct.copy_seconds + (grace if conduct.ends == "hangs" else 0)
            self._begin(record, timedelta(seconds=takes), self._copied)

    def _begin(self, record: SimpleNamespace, takes: timedelta, outcome: Callable[[Assignment], Outcome]) -> None:
        record.status, record.started_at, record.attempt = Status.RUNNING, self.now, record.attempt + 1
        self._at(self.now + takes, lambda: self._settle(record, outcome(self._assignments[record.id])))

    def _at(self, instant: datetime, do: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (instant, self._numbers, do))

    def _answer(self, assignment: Assignment) -> Outcome:
        if self.conducts[assignment.pk].answers:
            return check.handed_on(assignment, "it answered")
        return Unavailable("silent", assignment.policy.recheck_after)

    def _copied(self, assignment: Assignment) -> Outcome:
        match self.conducts[assignment.pk].ends:
            case "lost":
                return losses.counted(losses.lost(assignment.policy, "it was reset"), assignment)
            case "hangs":
                return losses.counted(losses.vanished(assignment.policy, "silent"), assignment)
            case "fails":
                return Failed("permission denied")
        return Succeeded()

    def _settle(self, record: SimpleNamespace, outcome: Outcome) -> None:
        """As `backups.copying.results` writes it down."""
        assignment = self._assignments[record.id]
        if isinstance(outcome, Handoff):
            assignment.last_contacted_at = self.now
        if isinstance(outcome, Unavailable) and record.queue == BACKUPS:
            assignment.vanished_at, assignment.losses = self.now, assignment.losses + 1
        if isinstance(outcome, Succeeded):
            del self._records[record.id]
            return
        change = transition(
            record,  # type: ignore[arg-type]
            outcome,
            home_queue=AVAILABILITY,
            rule=retries.Rule("constant", {"base": 20}),
            zone=assignment.policy.schedule.zone,
            now=self.now,
            inserted_at=record.inserted_at,
        )
        names = (
            "status queue run_after priority rank_day tried_at failures first_failure_at last_failure_at waiting_for"
        )
        for name in names.split():
            setattr(record, name, getattr(change, name))

    def _check_in(self, assignment: Assignment) -> None:
        record = self._records.get(assignment.pk)
        rechecks = record and record.status == Status.WAITING and record.waiting_for == WaitingFor.RECHECK
        if record and (rechecks or (record.status == Status.READY and record.queue == AVAILABILITY)):
            policy = assignment.policy
            place = place_after_a_check_in(
                record, assignment.loss, policy.schedule.zone, policy.recheck_after, self.now
            )
            for name, value in (place or {}).items():
                setattr(record, name, value)
        again = timedelta(seconds=self.conducts[assignment.pk].checks_in_every or 0)
        self._at(self.now + again, lambda: self._check_in(assignment))
