"""What a handler returns, and what that does to its record.

A handler returns a value; it never writes the record. `transition` says, without clock or database, what the
record becomes; `jobs.claiming.settle` writes that, fenced.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

from jobs import order, retries
from jobs.states import AttemptOutcome, Status, WaitingFor
from jobs.telling import storable
from jobs.waits import tiers

FIRST_IN_LINE = 1_000_000
"""Added to the priority of a record whose re-check must not be missed (a source just woken), until it is settled.

So large that half of it tells such a record from any priority that people give, negative ones included.
"""

MAX_ERROR_LENGTH = 4000

LOOKED_AT_AGAIN_AFTER = timedelta(days=1)
"""A record that waits for a breaker is let through by that. Should nobody do so, it is looked at again all the same."""


class Claimed(NamedTuple):
    """A record as its claim returned it: the facts that a handler and its settle need.

    `attempt`, `worker_id` and `lease_token` are the fence. All instants are aware UTC; `expected_seconds` and the
    like are seconds.
    """

    id: int
    kind: str
    queue: str
    subject: str
    attempt: int
    started_at: datetime
    priority: int
    due_day: date | None
    rank_day: date | None
    tried_at: datetime | None
    expected_seconds: float | None
    failures: int
    first_failure_at: datetime | None
    last_failure_at: datetime | None
    closes_at: datetime | None
    schedule_id: int | None
    retry_policy_id: int | None
    exclusive_key: str | None
    lane: int
    payload: dict[str, Any]
    worker_id: int
    lease_token: UUID


class Guarded(NamedTuple):
    """What a circuit breaker guards: a stable key, as `repository:3`, and its name for people."""

    key: str
    title: str


@dataclass(frozen=True)
class Succeeded:
    """The work is done. `result` is handed to the kind's settle hook. `proves`: what was seen to work by that."""

    result: Any = None
    proves: Guarded | None = None


@dataclass(frozen=True)
class Failed:
    """It did not work. Counts as a failure; the retry policy says when to try again.

    `fault_of`: what failed, when that was not the record's own subject: its breaker counts it, and once that is open
    the record waits for it (`Held`) without a failure of its own.
    """

    error: str
    rescued: bool = False
    fault_of: Guarded | None = None


@dataclass(frozen=True)
class Unavailable:
    """The source did not answer. Not a failure: it costs no retry.

    `recheck_after` in seconds. `first_in_line`: it was just woken, or lost a moment ago; its re-check comes before
    everything else and it keeps its place. `silent_for`: seconds for which it may have been silent when that was found
    out; None: since it was claimed.
    """

    reason: str
    recheck_after: float
    first_in_line: bool = False
    silent_for: float | None = None


@dataclass(frozen=True)
class Handoff:
    """This queue's part is done; go on in `queue`, under `exclusive_key` (at most one running record per key).

    `said`: what was found, for the log.
    """

    queue: str
    exclusive_key: str | None = None
    said: str = ""


@dataclass(frozen=True)
class Cancelled:
    """A person did not want it any more."""

    reason: str = ""


@dataclass(frozen=True)
class Released:
    """Given back unspent: the worker shuts down."""

    reason: str = "the worker was stopped"


@dataclass(frozen=True)
class Postponed:
    """Not now, and nobody's failure: it waits for `waiting_for` until `until` (aware), and keeps its place."""

    until: datetime
    waiting_for: WaitingFor
    reason: str


@dataclass(frozen=True)
class Held:
    """A breaker is open: it waits until that lets it through (`jobs/breakers/`), and keeps its place.

    Nobody's failure but that of what the breaker guards. `tried`: this very attempt failed for it, with `reason`.
    """

    breaker_id: int
    reason: str
    tried: bool = False


Outcome = Succeeded | Failed | Unavailable | Handoff | Cancelled | Released | Postponed | Held
OUTCOMES = frozenset(get_args(Outcome))


@dataclass(frozen=True)
class Transition:
    """What a settled record becomes: the columns that the settle writes, and its attempt's outcome."""

    status: Status
    queue: str
    run_after: datetime
    priority: int
    rank_day: date | None
    tried_at: datetime | None
    failures: int
    first_failure_at: datetime | None
    last_failure_at: datetime | None
    attempt_outcome: AttemptOutcome
    error: str = ""
    exclusive_key: str | None = None
    waiting_for: WaitingFor | None = None
    finished_at: datetime | None = None
    breaker_id: int | None = None


def transition(
    record: Claimed,
    outcome: Outcome,
    *,
    home_queue: str,
    rule: retries.Rule,
    zone: str,
    now: datetime,
    usual_priority: int | None = None,
    inserted_at: datetime | None = None,
    dice: retries.Dice = retries.DICE,
) -> Transition:
    """What `record` becomes after `outcome` at `now` (aware UTC).

    `home_queue` is where records of its kind wait: whatever it waits for, it starts there again. `zone` is the
    IANA zone in which its days are counted. `usual_priority` is its schedule's: a failure ends what a person added
    to it. `inserted_at`: when it was put on the backlog; what is random about its wait comes from `dice`.
    """
    today = now.astimezone(ZoneInfo(zone)).date()
    kept = Transition(
        status=Status.READY,
        queue=home_queue,
        run_after=now,
        priority=record.priority - FIRST_IN_LINE if record.priority > FIRST_IN_LINE // 2 else record.priority,
        rank_day=record.rank_day,
        tried_at=record.tried_at,
        failures=record.failures,
        first_failure_at=record.first_failure_at,
        last_failure_at=record.last_failure_at,
        attempt_outcome=AttemptOutcome.RELEASED,
    )
    match outcome:
        case Succeeded():
            return replace(kept, status=Status.SUCCEEDED, finished_at=now, attempt_outcome=AttemptOutcome.SUCCEEDED)
        case Cancelled():
            return replace(
                kept,
                status=Status.CANCELLED,
                finished_at=now,
                attempt_outcome=AttemptOutcome.CANCELLED,
                error=_told(outcome.reason),
            )
        case Released():
            return replace(
                kept, priority=record.priority, error=_told(outcome.reason)
            )  # a woken source is not forgotten
        case Postponed():
            return replace(
                kept,
                status=Status.WAITING,
                waiting_for=outcome.waiting_for,
                run_after=max(outcome.until, now),
                error=_told(outcome.reason),
            )
        case Held():
            return replace(
                kept,
                status=Status.WAITING,
                waiting_for=WaitingFor.BREAKER,
                breaker_id=outcome.breaker_id,
                run_after=now + LOOKED_AT_AGAIN_AFTER,
                attempt_outcome=AttemptOutcome.FAILED if outcome.tried else AttemptOutcome.RELEASED,
                error=_told(outcome.reason),
            )
        case Handoff():
            return _after_handoff(record, kept, outcome)
        case Unavailable():
            return _after_silence(record, kept, outcome, today, now)
        case Failed():
            if usual_priority is not None:
                kept = replace(kept, priority=usual_priority)
            failure = _failure(record, inserted_at, now)
            return _after_failure(record, kept, outcome, failure, rule, today, now, dice)


def _told(text: str) -> str:
    return storable(text)[:MAX_ERROR_LENGTH]


def _after_handoff(record: Claimed, kept: Transition, outcome: Handoff) -> Transition:
    """It answered: it stands where it would have stood, overdue first. What has failed stays demoted."""
    handed = replace(
        kept, queue=outcome.queue, exclusive_key=outcome.exclusive_key, attempt_outcome=AttemptOutcome.HANDOFF
    )
    if order.keeps_its_place(record.failures):
        return handed
    return replace(handed, rank_day=record.due_day, tried_at=None)


def _after_silence(record: Claimed, kept: Transition, outcome: Unavailable, today: date, now: datetime) -> Transition:
    waiting = replace(
        kept,
        status=Status.WAITING,
        waiting_for=WaitingFor.RECHECK,
        run_after=now + timedelta(seconds=outcome.recheck_after),
        attempt_outcome=AttemptOutcome.UNAVAILABLE,
        error=_told(outcome.reason),
    )
    if outcome.first_in_line:
        return replace(waiting, priority=kept.priority + FIRST_IN_LINE)
    return replace(waiting, rank_day=order.demoted(record.rank_day, today), tried_at=now)


def _failure(record: Claimed, inserted_at: datetime | None, now: datetime) -> retries.Failure:
    return retries.Failure(
        number=record.failures + 1,
        at=now.timestamp(),
        first_at=_first_failure_at(record, now).timestamp() if record.first_failure_at or not record.failures else None,
        inserted_at=inserted_at.timestamp() if inserted_at else None,
        record_id=record.id,
    )


def _first_failure_at(record: Claimed, now: datetime) -> datetime:
    """One in the future was dated by a clock that was wrong, and would hold up what counts from it."""
    return min(record.first_failure_at or now, now)


def _after_failure(
    record: Claimed,
    kept: Transition,
    outcome: Failed,
    failure: retries.Failure,
    rule: retries.Rule,
    today: date,
    now: datetime,
    dice: retries.Dice,
) -> Transition:
    failed = replace(
        kept,
        failures=failure.number,
        first_failure_at=_first_failure_at(record, now),
        last_failure_at=now,
        attempt_outcome=AttemptOutcome.RESCUED if outcome.rescued else AttemptOutcome.FAILED,
        error=_told(outcome.error),
    )
    if rule.gives_up(failure):
        return replace(failed, status=Status.FAILED, finished_at=now)
    waiting_for, run_after = wait_after(failure, rule, dice)
    return replace(
        failed,
        status=Status.WAITING,
        waiting_for=waiting_for,
        run_after=max(run_after, now),
        rank_day=order.demoted_by_failure(record.due_day, today, failure.number),
        tried_at=now,
    )


def wait_after(
    failure: retries.Failure, rule: retries.Rule, dice: retries.Dice = retries.DICE
) -> tuple[WaitingFor, datetime]:
    """What a record waits for after a failure that was not its last, and until when (aware UTC) at the longest."""
    if rule.waits_for_sweeps:
        return WaitingFor.SWEEP, datetime.fromtimestamp(failure.of_a_record_from + tiers.OLDEST, UTC)
    return WaitingFor.BACKOFF, datetime.fromtimestamp(failure.at, UTC) + timedelta(
        seconds=retries.delay(rule, failure, dice)
    )
