"""A backlog of backups in virtual time, as `worker` uses it, and the rows of a fleet, which both worlds get."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from jobs.outcomes import ClaimedRecord, Outcome
from jobs.worker.claimer import Shortage
from schedules.models import Schedule
from simulation.fleet_file import SimulatedFleet, SimulatedPolicy
from simulation.lookahead.parts import guessed_seconds
from simulation.machines import SimulatedMachine
from sources.models import Assignment, Policy, Source
from sources.models.source import FIRST_BYTES_PER_SECOND
from sources.planning.names import KIND

PLACES = 200
"""Questions of one queue at a time, as the product's settings have it."""


class BacklogWorld(Protocol):
    """Decisions about records. `now` never goes back; an assignment has the number of its machine as its id."""

    def begin(self, now: datetime) -> None:
        """Put the due assignments on the backlog, as when sources are added."""

    def next_at(self) -> datetime | None:
        """The next instant at which time alone moves a record; None if there is none."""

    def tick(self, now: datetime) -> None:
        """Emit the assignments that a trigger has made due, promote waiting records, close windows."""

    def has_ready(self, queue: str) -> bool:
        """True if a queue is worth a claim, as a worker learns from its look."""

    def shortage(self, feeder: str, now: datetime) -> Shortage: ...
    def claim(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]: ...
    def claim_woken(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]: ...
    def assignment(self, number: int) -> Assignment: ...
    def assignments(self, numbers: Sequence[int]) -> Mapping[int, Assignment]: ...
    def waking_up(self, source: Source, now: datetime) -> int: ...
    def gives_way(self, record: ClaimedRecord, now: datetime) -> bool: ...

    def note_packet(self, source: Source, now: datetime) -> None:
        """A magic packet was sent to it."""

    def settle(self, results: Sequence[tuple[ClaimedRecord, Outcome]], now: datetime) -> None: ...


class FleetRows(NamedTuple):
    """The rows of a fleet, not saved: in the order of the file."""

    schedules: list[Schedule]
    policies: list[Policy]
    sources: list[Source]
    assignments: list[Assignment]


def rows_of(fleet: SimulatedFleet, machines: Sequence[SimulatedMachine]) -> FleetRows:
    schedules = [_schedule(number, each, fleet.start) for number, each in enumerate(fleet.policies, 1)]
    policies = [_policy(schedule, each) for schedule, each in zip(schedules, fleet.policies, strict=True)]
    by_name = {policy.schedule.name: policy for policy in policies}
    guessed = guessed_seconds(machines, fleet.seed)
    backed_up = {machine.source.policy for machine in machines if machine.source.backed_up}
    before = {by_name[name].pk: _period_before(by_name[name], fleet.start) for name in backed_up}
    sources = [_source(machine, guessed[machine.number]) for machine in machines]
    assignments = [
        _assignment(machine, source, by_name[machine.source.policy], before)
        for machine, source in zip(machines, sources, strict=True)
    ]
    return FleetRows(schedules, policies, sources, assignments)


def _schedule(number: int, policy: SimulatedPolicy, start: datetime) -> Schedule:
    return Schedule(
        pk=number, name=policy.name, zone=policy.zone, cron=policy.period, kind=KIND, provider="assignments",
        next_trigger_at=policy.cron.next_after(start),
    )  # fmt: skip


def _policy(schedule: Schedule, policy: SimulatedPolicy) -> Policy:
    names = ("connect_timeout", "recheck_after", "wake_every", "wake_wait", "vanish_grace")
    values = {name: getattr(policy, name) for name in names}
    return Policy(pk=schedule.pk, schedule=schedule, window=policy.windows, wake_allowed=True, **values)


def _source(machine: SimulatedMachine, guessed: float) -> Source:
    number = machine.number
    parts = (number >> shift & 255 for shift in (16, 8, 0))
    mac_address = "02:00:5e:" + ":".join(f"{part:02x}" for part in parts) if machine.source.wake_on_lan else ""
    used_bytes = round(guessed * FIRST_BYTES_PER_SECOND)
    return Source(
        pk=number, name=machine.source.name, kind="sftp", path="/", mac_address=mac_address, used_bytes=used_bytes
    )


def _period_before(policy: Policy, start: datetime) -> tuple[datetime, datetime]:
    """The beginning of the period before `start`, and the trigger that ends it."""
    period = policy.schedule.period
    began = period.current(period.current(start) - timedelta(microseconds=1))
    return began, period.next_after(began)


def _assignment(
    machine: SimulatedMachine, source: Source, policy: Policy, before: dict[int, tuple[datetime, datetime]]
) -> Assignment:
    assignment = Assignment(pk=machine.number, source=source, policy=policy)
    if machine.source.backed_up:
        assignment.last_backup_at, assignment.next_backup_at = before[policy.pk]
        assignment.last_backup_for = round(machine.source.median_seconds, 6)
    return assignment
