"""The registry: which code runs a record, and what else belongs to its kind.

    registry.add(Kind("backup", home_queue="availability", after_settle=...))

    @registry.handler("backup", queue="availability")
    async def check(run: Run) -> Outcome: ...

A handler is sync (it runs in a thread) or async (it runs on the worker's one event loop). It returns an
`Outcome`; whatever it raises counts as `Failed`.
"""

from asyncio import Task
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from threading import Event, Lock

from jobs.outcomes import Claimed, Outcome, Postponed
from jobs.states import WaitingFor


class Run:
    """A claimed record on its way through a handler.

    `stop` is set when the handler has to end now: the lease is lost, a person cancelled it, it ran for too long, or
    the worker shuts down. A handler that ends because of it returns `Released`; an async one is cancelled as well.
    `renewed_at` is from before the last claim or renewal was sent, `began_at` from when the handler was started (None:
    it was not); both in boot seconds. A handler that knows better than its kind how long it may take sets
    `max_seconds`.
    """

    __slots__ = ("_stop", "began_at", "max_seconds", "ran_out", "record", "renewed_at", "task")

    def __init__(self, record: Claimed, renewed_at: float = 0.0) -> None:
        self.record = record
        self.renewed_at = renewed_at
        self.began_at: float | None = None
        self.max_seconds: float | None = None
        self.ran_out = False
        self.task: Task[None] | None = None
        self._stop: Event | None = None

    @property
    def stop(self) -> Event:
        """Made when somebody first asks for it: at tens of thousands of records a second nobody does."""
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
        """For how many seconds its handler may run; None: for as long as it takes."""
        return self.max_seconds or registry.kind(self.record.kind).max_seconds


_making_an_event = Lock()
Handler = Callable[[Run], Outcome] | Callable[[Run], Awaitable[Outcome]]
AfterSettle = Callable[[Claimed, Outcome, datetime], None]
Opening = tuple[datetime, datetime | None]
NextOpening = Callable[[list[tuple[int, str]], datetime], dict[int, Opening]]


@dataclass(frozen=True)
class Kind:
    """A kind of records.

    `home_queue`: where its records wait and start again. `after_settle(record, outcome, now)` runs in the settle's
    transaction. `next_opening([(record id, subject)], now)` answers, for records whose window has closed, from
    when to when they may run next; a kind without it has no windows. `max_seconds`: a handler that runs for longer
    is hung: it is stopped, its lease is not renewed any more, and that is a failure.
    """

    name: str
    home_queue: str = "default"
    after_settle: AfterSettle | None = None
    next_opening: NextOpening | None = None
    max_seconds: float | None = None


class Registry:
    """Kinds, their handlers by queue, and the providers of batches."""

    def __init__(self) -> None:
        self.kinds: dict[str, Kind] = {}
        self.providers: dict[str, Callable[..., int]] = {}
        self.catch_ups: list[Callable[[], int]] = []
        self.periodic: list[Callable[[], int]] = []
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._async_ones: dict[Handler, bool] = {}

    def add(self, kind: Kind) -> None:
        """Register a kind. Registering it again replaces it (a reload, a test)."""
        self.kinds[kind.name] = kind

    def handler(self, kind: str, *, queue: str) -> Callable[[Handler], Handler]:
        """Register the decorated function to run records of `kind` that are claimed from `queue`."""

        def register(function: Handler) -> Handler:
            self._handlers[kind, queue] = function
            return function

        return register

    def find(self, kind: str, queue: str) -> Handler:
        """The handler of `kind` in `queue`: for an unknown kind, one that puts it off and says so."""
        return self._handlers.get((kind, queue), _unknown)

    def handlers(self) -> dict[tuple[str, str], Handler]:
        """The registered handlers by (kind, queue)."""
        return dict(self._handlers)

    def is_async(self, kind: str, queue: str) -> bool:
        """Whether that handler runs on the event loop."""
        handler = self.find(kind, queue)
        known = self._async_ones.get(handler)
        if known is None:
            known = self._async_ones[handler] = iscoroutinefunction(handler)
        return known

    def kind(self, name: str) -> Kind:
        """The kind of that name: for an unknown name, one without hooks."""
        return self.kinds.get(name) or Kind(name)

    def home_of(self, kind: str, queue: str) -> str:
        """The queue where records of `kind` start; of a kind that is unknown here, `queue`, the one that it is in."""
        return self.kinds[kind].home_queue if kind in self.kinds else queue

    def without_windows(self) -> list[str]:
        """The kinds known here whose records have no windows. Of any other, a worker that knows it decides."""
        return [kind.name for kind in self.kinds.values() if kind.next_opening is None]

    def add_provider(self, name: str, emit: Callable[..., int], catch_up: Callable[[], int] | None = None) -> None:
        """Register what yields the batches of triggers: `emit([(schedule, trigger_at)], now) -> records`.

        It is given each schedule once at most, in one transaction with what notes that they were emitted. Asked again
        for a trigger, it puts there what is not there yet.

        `catch_up() -> records` emits what became due in mid-period and was missed.
        """
        self.providers[name] = emit
        if catch_up:
            self.catch_ups.append(catch_up)

    def add_periodic(self, task: Callable[[], int]) -> None:
        """Register what is done every minute beside the tick: short, idempotent. Returns how many rows it changed."""
        if task not in self.periodic:
            self.periodic.append(task)


UNKNOWN_KIND_SECONDS, LONGEST_UNKNOWN_KIND_SECONDS = 60, 3_600


def _unknown(run: Run) -> Outcome:
    """Left to a worker that knows the kind, as in an upgrade that has not reached this host. Each attempt is a row of
    the history, so it waits a minute longer each time, at most an hour."""
    record = run.record
    seconds = min(record.attempt * UNKNOWN_KIND_SECONDS, LONGEST_UNKNOWN_KIND_SECONDS)
    reason = f"no handler for kind {record.kind!r} in queue {record.queue!r}: is its app installed here?"
    return Postponed(record.started_at + timedelta(seconds=seconds), WaitingFor.RECHECK, reason)


registry = Registry()
