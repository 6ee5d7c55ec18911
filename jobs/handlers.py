"""The registry: the code that runs a record, and the other functions of its kind.

    registry.add(Kind("backup", home_queue="availability", after_settle=...))

    @registry.handler("backup", queue="availability")
    async def check(run: Run) -> Outcome: ...

A handler is sync (it runs in a thread) or async (it runs on the worker's one event loop). It returns an
`Outcome`; whatever it raises counts as `Failed`.
"""

from asyncio import Task
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from inspect import iscoroutinefunction
from threading import Event, Lock
from typing import Any

from jobs.outcomes import ClaimedRecord, Outcome, Postponed, Results
from jobs.states import AttemptOutcome, WaitingFor


class Run:
    """A claimed record on its way through a handler.

    `stop` is set when the handler must end now: the lease is lost, a user cancelled it, it ran for too long, or the
    worker shuts down. A handler that ends for that reason returns `Released`; an async one is cancelled as well.
    `renewed_at` is from before the last claim or renewal was sent, `began_at` from when the handler was started (None
    if it was not); both in boot seconds. A handler that knows better than its kind how long it may take sets
    `max_seconds`.
    """

    __slots__ = ("_stop", "began_at", "max_seconds", "ran_out", "record", "renewed_at", "task")

    def __init__(self, record: ClaimedRecord, renewed_at: float = 0.0) -> None:
        self.record = record
        self.renewed_at = renewed_at
        self.began_at: float | None = None
        self.max_seconds: float | None = None
        self.ran_out = False
        self.task: Task[None] | None = None
        self._stop: Event | None = None

    @property
    def stop(self) -> Event:
        """Made at its first use: at tens of thousands of records a second none is used."""
        if self._stop is None:
            with _making_an_event:
                if self._stop is None:
                    self._stop = Event()
        return self._stop

    @property
    def is_stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    @property
    def limit(self) -> float | None:
        """Seconds for which its handler may run; None for as long as it takes."""
        return self.max_seconds or registry.kind(self.record.kind).max_seconds


_making_an_event = Lock()
Handler = Callable[[Run], Outcome] | Callable[[Run], Awaitable[Outcome]]
AfterSettle = Callable[[Results, datetime], None]
Opening = tuple[datetime, datetime | None]
NextOpening = Callable[[list[tuple[int, str]], datetime], dict[int, Opening]]


@dataclass(frozen=True)
class Kind:
    """A kind of records.

    `home_queue`: where its records wait and start again. `after_settle([(record, outcome)], now)` runs in the settle's
    transaction, with all of its results; `one_by_one` makes one of a function that takes a single result.
    `next_opening([(record id, subject)], now)` returns, for records whose window has closed, the next
    span in which they may run, and may end those that are no longer wanted; a kind without it has no windows.
    `max_seconds`: a handler that runs for longer is hung: it is stopped, its lease is no longer renewed, and that is
    a failure. `warm_up()` is called once by each worker that serves its home queue, before it claims.
    """

    name: str
    home_queue: str = "default"
    after_settle: AfterSettle | None = None
    next_opening: NextOpening | None = None
    max_seconds: float | None = None
    warm_up: Callable[[], None] | None = None


@dataclass(frozen=True)
class StepDue:
    """The answer of another app's step to a tick: whether it `is_due`; when it will be, as far as that is known; and
    whether it is `under_way`, so that its next part may be due in a moment.
    """

    is_due: bool = False
    next_at: datetime | None = None
    under_way: bool = False


@dataclass(frozen=True)
class TickStep:
    """A step that another app adds to the tick, before all others.

    `columns`: scalar sub-selects, which join the tick's one query. They see the instant as `clock.now`, and the values
    of `values(now)` as parameters. `found(now, row)`: interprets these columns. `do(now, seconds)` works for some
    seconds and returns the number of records that it put on the backlog.
    """

    name: str
    columns: tuple[str, ...]
    values: Callable[[datetime], dict[str, Any]]
    found: Callable[[datetime, tuple[Any, ...]], StepDue]
    do: Callable[[datetime, float], int]


NO_STEP = TickStep("do nothing", (), lambda now: {}, lambda now, row: StepDue(), lambda now, seconds: 0)


def later(name: str) -> Callable[..., Any]:
    """The function `module:function`, imported at its first call, so that commands do not wait for unused imports."""
    module, _, function = name.partition(":")

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), function)(*args, **kwargs)

    call.__module__, call.__qualname__ = module, function
    return call


def one_by_one(write: Callable[[ClaimedRecord, Outcome, datetime], None]) -> AfterSettle:
    """An `after_settle` that calls `write(record, outcome, now)` for each result."""

    def after_settle(results: Results, now: datetime) -> None:
        for record, outcome in results:
            write(record, outcome, now)

    return after_settle


def later_async(name: str) -> Callable[[Run], Awaitable[Outcome]]:
    """The same, of an async handler."""
    find = later(name)

    async def call(run: Run) -> Outcome:
        outcome: Outcome = await find(run)
        return outcome

    return call


class Registry:
    """Kinds, their handlers by queue, and the functions of other apps that the queue calls."""

    def __init__(self) -> None:
        self.kinds: dict[str, Kind] = {}
        self.step = NO_STEP
        """The step of other apps in a tick."""
        self.at_start: list[Callable[[datetime], int]] = []
        """`(now)`: called when a worker starts, and every minute where none runs."""
        self.periodic: list[Callable[[], int]] = []
        """Called every minute."""
        self.rare: list[Callable[[], int]] = []
        """Called every five minutes by a worker, and every minute by the clock outside."""
        self.due: dict[Callable[[], int], str] = {}
        """The SQL condition of such a task: it is not called while that is false."""
        self.prunes: list[Callable[[datetime], int]] = []
        """`(now)`: called every hour."""
        self.at_heartbeat: list[Callable[[], None]] = []
        """Called at each heartbeat of a worker."""
        self.at_claim: list[Callable[[str, Sequence[ClaimedRecord], int, int], None]] = []
        """`(queue, claimed, wanted, worker id)`: called after a claim."""
        self.at_end: list[Callable[[Sequence[ClaimedRecord], AttemptOutcome, datetime | None], None]] = []
        """`(records, outcome, ended_at)`: called when attempts have ended in one way, at that instant (now if None)."""
        self.before_retry: list[Callable[[Sequence[int]], None]] = []
        """`(record ids)`: called before these are locked, so that the ends of their batches are not noted until this
        transaction ends."""
        self.at_retry: list[Callable[[Sequence[int]], None]] = []
        """`(record ids)`: called when these, which had ended, are unfinished again."""
        self._handlers: dict[tuple[str, str], tuple[Handler, bool]] = {}

    def add(self, kind: Kind) -> None:
        """Register a kind. Registering it again replaces it (a reload, a test)."""
        self.kinds[kind.name] = kind

    def warm_up(self, queues: Collection[str]) -> None:
        """Prepare a worker that serves these queues, before it claims."""
        for kind in self.kinds.values():
            if kind.warm_up and kind.home_queue in queues:
                kind.warm_up()

    def beat(self) -> None:
        """Call the functions for a heartbeat."""
        for each in self.at_heartbeat:
            each()

    def handler(self, kind: str, *, queue: str) -> Callable[[Handler], Handler]:
        """Register the decorated function to run records of `kind` that are claimed from `queue`."""

        def register(function: Handler) -> Handler:
            self._handlers[kind, queue] = function, iscoroutinefunction(function)
            return function

        return register

    def find(self, kind: str, queue: str) -> Handler:
        """The handler of `kind` in `queue`: for an unknown kind, one that puts the record off with that reason."""
        return self._handlers.get((kind, queue), (_unknown, False))[0]

    def handlers(self) -> dict[tuple[str, str], Handler]:
        """The registered handlers by (kind, queue)."""
        return {where: function for where, (function, _) in self._handlers.items()}

    def is_async(self, kind: str, queue: str) -> bool:
        """True if that handler runs on the event loop."""
        return self._handlers.get((kind, queue), (_unknown, False))[1]

    def kind(self, name: str) -> Kind:
        """The kind of that name: for an unknown name, one without hooks."""
        return self.kinds.get(name) or Kind(name)

    def home_of(self, kind: str, queue: str) -> str:
        """The queue where records of `kind` start; of a kind that is unknown here, `queue`, the one that it is in."""
        return self.kinds[kind].home_queue if kind in self.kinds else queue

    def without_windows(self) -> list[str]:
        """The kinds known here whose records have no windows. A worker that knows another kind decides about it."""
        return [kind.name for kind in self.kinds.values() if kind.next_opening is None]

    def add_periodic(self, task: Callable[[], int], *, rare: bool = False, due: str = "") -> None:
        """Register a task for every minute, next to the tick, or if `rare`, since nothing waits for it, for every five
        minutes: short, idempotent. It returns the number of rows that it changed. `due`: a condition without which
        there is nothing to do, queried for all tasks of a round in one statement, which has the instant as `clock.now`.
        If it is empty, the task asks itself.
        """
        tasks = self.rare if rare else self.periodic
        if task not in tasks:
            tasks.append(task)
        if due:
            self.due[task] = due


UNKNOWN_KIND_SECONDS, LONGEST_UNKNOWN_KIND_SECONDS = 60, 3_600


def _unknown(run: Run) -> Outcome:
    """Leave the record to a worker that knows its kind, such as during an upgrade that has not reached this host. Each
    attempt is a row of the history, so it waits a minute longer each time, at most an hour."""
    record = run.record
    seconds = min(record.attempt * UNKNOWN_KIND_SECONDS, LONGEST_UNKNOWN_KIND_SECONDS)
    reason = f"no handler for kind {record.kind!r} in queue {record.queue!r}: is its app installed here?"
    return Postponed(record.started_at + timedelta(seconds=seconds), WaitingFor.RECHECK, reason)


registry = Registry()
