"""Tables, journals and deeds as plain values, so that the audit is pure. All instants are boot seconds."""

from dataclasses import dataclass, field

from jobs.states import AttemptOutcome, Status

EXIT_CODE_OF_POISON = 86
"""The exit code of a worker that was killed by one of its records."""

BY_ITSELF, DID_NOT_END = "ended by itself", "did not end after SIGTERM"
"""Ends that no worker may have."""


@dataclass(frozen=True)
class RecordFact:
    """A row of the backlog after the storm. `max_failures` is None if it never gives up; `cancelled_at`: the instant at
    which it was asked to stop while it ran."""

    id: int
    kind: str
    queue: str
    subject: str
    status: Status
    attempt: int
    failures: int
    max_failures: int | None
    cancelled_at: float | None
    leased: bool


@dataclass(frozen=True)
class AttemptFact:
    """A row of the history."""

    record_id: int
    number: int
    queue: str
    worker_id: int
    started: float
    ended: float
    outcome: AttemptOutcome


@dataclass
class Execution:
    """The run of a handler, from its worker's journal. `ended` is None if it was cut off."""

    record_id: int
    attempt: int
    worker_id: int
    pid: int
    kind: str
    queue: str
    exclusive_key: str | None
    throttles: tuple[int, ...]
    began: float
    ended: float | None = None
    outcome: str = ""


@dataclass(frozen=True)
class Journal:
    """The journal of one worker process: its executions, and an instant for each line."""

    pid: int
    executions: list[Execution]
    pulses: list[float]


@dataclass(frozen=True)
class ProcessFact:
    """A worker process. `ended`: the instant at which it was known to be gone; `how`: the cause; `asked_to_end`: the
    instant of a SIGTERM; `stood`: its standstills."""

    pid: int
    started: float
    ended: float
    how: str
    asked_to_end: float = float("inf")
    stood: tuple[tuple[float, float], ...] = ()

    @property
    def died(self) -> bool:
        return self.how != "ended cleanly"


@dataclass(frozen=True)
class QueuePause:
    """The time from `since` to `until` in which nothing may have been claimed from a queue."""

    queue: str
    since: float
    until: float


@dataclass
class Deeds:
    """The changes of the backlog from outside. Those that the database did not answer are in doubt."""

    subjects: dict[str, str] = field(default_factory=dict)
    """Subject → kind of every enqueued record."""
    cancelled_idle: set[int] = field(default_factory=set)
    asked_to_stop: set[int] = field(default_factory=set)
    cancels_in_doubt: set[int] = field(default_factory=set)
    pauses: list[QueuePause] = field(default_factory=list)


@dataclass(frozen=True)
class Samples:
    """The sampler's findings: the highest count per throttle, and exclusive keys with two running records."""

    count: int
    peaks: dict[int, int]
    doubled_keys: frozenset[str]


@dataclass(frozen=True)
class StormFacts:
    """The facts that the audit judges. `caps`: throttle id → its cap; `feeding`: queues that no throttle counts."""

    lease_seconds: float
    caps: dict[int, int]
    feeding: frozenset[str]
    records: dict[int, RecordFact]
    attempts: dict[int, list[AttemptFact]]
    executions: list[Execution]
    processes: dict[int, ProcessFact]
    worker_pids: dict[int, int]
    bookings: list[tuple[int, int]]
    deeds: Deeds
    samples: Samples
    drained: bool
    complaints: list[str] = field(default_factory=list)
