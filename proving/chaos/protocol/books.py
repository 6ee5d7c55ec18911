"""The books after a step: the rows, as an observer reads them, and the runs that the workers believe they have."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from jobs import conf
from jobs.handlers import Run
from jobs.outcomes import Handoff, Succeeded, Unavailable
from jobs.states import AttemptOutcome, Status
from proving.chaos.protocol import places
from proving.chaos.protocol.monitor import ATTEMPTS, BOOKINGS, RECORDS, TRIGGERS
from proving.chaos.protocol.worker import SimulatedWorker
from proving.chaos.protocol.world import World

WRITTEN_AS: dict[type, AttemptOutcome] = {
    Succeeded: AttemptOutcome.SUCCEEDED,
    Handoff: AttemptOutcome.HANDOFF,
    Unavailable: AttemptOutcome.UNAVAILABLE,
}


class RecordRow(NamedTuple):
    """A record, with the columns of `RECORDS`."""

    id: int
    kind: str
    queue: str
    subject: str
    status: int
    attempt: int
    leased_by: int | None
    token: UUID | None
    lease_expires_at: datetime | None
    exclusive_key: str | None
    waiting_for: int | None
    run_after: datetime
    lane: int
    is_cancelled: bool
    trigger_at: datetime | None
    schedule_id: int | None


class AttemptRow(NamedTuple):
    """An attempt in the history."""

    record_id: int
    number: int
    worker_id: int
    outcome: int


class TriggerRow(NamedTuple):
    """A trigger in the database, and the number of its records."""

    trigger_at: datetime
    events: int
    is_emitted: bool
    watermark: datetime
    wanted: int
    records: int


@dataclass(frozen=True)
class Seen:
    """The rows after a step."""

    records: dict[int, RecordRow]
    attempts: dict[tuple[int, int], AttemptRow]
    bookings: list[tuple[int, int]]
    triggers: list[TriggerRow]

    def holds(self, run: Run) -> bool:
        """True if this run's worker has its lease, by the database."""
        row = self.records.get(run.record.id)
        return (
            row is not None
            and row.status == Status.RUNNING
            and row.attempt == run.record.attempt
            and row.token == run.record.lease_token
        )

    def is_a_key_taken(self) -> bool:
        return any(row.exclusive_key and row.status in (Status.READY, Status.RUNNING) for row in self.records.values())


def look(world: World) -> Seen:
    records, attempts, bookings, triggers = world.monitor.all_rows((RECORDS, ATTEMPTS, BOOKINGS, TRIGGERS))
    return Seen(
        {row[0]: RecordRow(*row) for row in records},
        {(row[0], row[1]): AttemptRow(*row) for row in attempts},
        [(row[0], row[1]) for row in bookings],
        [TriggerRow(*row) for row in triggers],
    )


def lives(worker: SimulatedWorker, run: Run, boot: float) -> bool:
    """True if a worker that is neither dead nor paused considers this run its own: the handler is busy and not stopped,
    or has ended within two thirds of a lease after the last renewal."""
    if worker.is_dead or worker.is_paused or run.is_stopped:
        return False
    return bool(places.holding(run)) or boot - run.renewed_at <= conf.deadline_seconds()


def may_have_been_stopped(worker: SimulatedWorker, run: Run, boot: float) -> bool:
    """True if the worker's guard had to stop this run, which was not renewed for two thirds of a lease."""
    return boot - run.renewed_at > conf.deadline_seconds() or run.ran_out or worker.is_paused


def is_rescue(attempt: AttemptRow) -> bool:
    return attempt.outcome == AttemptOutcome.RESCUED
