"""Tables, journals and deeds as plain values, so that the audit is pure. All instants are boot seconds."""

from dataclasses import dataclass, field

from jobs.states import AttemptOutcome, Status

EXIT_CODE_OF_POISON = 86
"""Of a worker that one of its records has killed."""

BY_ITSELF, DID_NOT_END = "ended by itself", "did not end after SIGTERM"
"""How no worker may end."""


@dataclass(frozen=True)
class RecordFact:
    """A row of the backlog after the storm. `max_failures` None: it never gives up; `cancelled_at`: when it was asked
    to stop while it ran."""

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
    """A handler that really ran, as its worker's journal says. `ended` None: it was cut off."""

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
    """What one worker process wrote: its executions, and an instant for each line."""

    pid: int
    executions: list[Execution]
    pulses: list[float]


@dataclass(frozen=True)
class ProcessFact:
    """A worker process: `ended` is when it was known to be gone, `how` what ended it, `asked_to_end` when it was sent
    SIGTERM; `stood` are its standstills."""

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
class Pause:
    """A queue from which nothing may have been claimed after `since` and before `until`."""

    queue: str
    since: float
    until: float


@dataclass
class Deeds:
    """What was done to the backlog from outside. In doubt is what the database did not answer."""

    subjects: dict[str, str] = field(default_factory=dict)
    """Subject → kind of every record that was put there."""
    cancelled_idle: set[int] = field(default_factory=set)
    asked_to_stop: set[int] = field(default_factory=set)
    cancels_in_doubt: set[int] = field(default_factory=set)
    pauses: list[Pause] = field(default_factory=list)


@dataclass(frozen=True)
class Samples:
    """What the sampler saw: the highest count a throttle, and exclusive keys with two running records."""

    count: int
    peaks: dict[int, int]
    doubled_keys: frozenset[str]


@dataclass(frozen=True)
class Facts:
    """Everything that the audit judges. `caps`: throttle id → its cap; `feeding`: queues that no throttle counts."""

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
