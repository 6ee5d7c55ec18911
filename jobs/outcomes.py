"""What a handler returns, and what that does to its record.

A handler returns a value; it never writes the record. `transition` says, without clock or database, what the
record becomes; `jobs.claiming.settle` writes that, fenced.
"""

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

from jobs import order, retries
from jobs.states import AttemptOutcome, Status, WaitingFor
from jobs.telling import storable

FIRST_IN_LINE = 1_000_000
"""Added to the priority of a record whose re-check must not be missed (a source just woken), until it is settled.

So large that half of it tells such a record from any priority that people give, negative ones included.
"""

MAX_ERROR_LENGTH = 4000


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


@dataclass(frozen=True)
class Succeeded:
    """The work is done. `result` is handed to the kind's settle hook."""

    result: Any = None


@dataclass(frozen=True)
class Failed:
    """It did not work. Counts as a failure; the retry policy says when to try again."""

    error: str
    rescued: bool = False


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


Outcome = Succeeded | Failed | Unavailable | Handoff | Cancelled | Released | Postponed
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


def transition(
    record: Claimed,
    outcome: Outcome,
    *,
    home_queue: str,
    rule: retries.Rule,
    zone: str,
    now: datetime,
    usual_priority: int | None = None,
) -> Transition:
    """What `record` becomes after `outcome` at `now` (aware UTC).

    `home_queue` is where records of its kind wait: whatever it waits for, it starts there again. `zone` is the
    IANA zone in which its days are counted. `usual_priority` is its schedule's: a failure ends what a person added
    to it.
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
        case Handoff():
            return _after_handoff(record, kept, outcome)
        case Unavailable():
            return _after_silence(record, kept, outcome, today, now)
        case Failed():
            if usual_priority is not None:
                kept = replace(kept, priority=usual_priority)
            return _after_failure(record, kept, outcome, rule, today, now)


def _told(text: str) -> str:
    return storable(text)[:MAX_ERROR_LENGTH]


def _after_handoff(record: Claimed, kept: Transition, outcome: Handoff) -> Transition:
    """It answered: it stands where it would have stood, overdue first. What a failure demoted stays demoted."""
    handed = replace(
        kept, queue=outcome.queue, exclusive_key=outcome.exclusive_key, attempt_outcome=AttemptOutcome.HANDOFF
    )
    if order.was_demoted_by_failure(record.tried_at, record.last_failure_at):
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
    return replace(waiting, **_demoted(record, today, now))


def _after_failure(
    record: Claimed, kept: Transition, outcome: Failed, rule: retries.Rule, today: date, now: datetime
) -> Transition:
    failed = replace(
        kept,
        failures=record.failures + 1,
        first_failure_at=record.first_failure_at or now,
        last_failure_at=now,
        attempt_outcome=AttemptOutcome.RESCUED if outcome.rescued else AttemptOutcome.FAILED,
        error=_told(outcome.error),
    )
    if rule.gives_up(failed.failures):
        return replace(failed, status=Status.FAILED, finished_at=now)
    return replace(
        failed,
        status=Status.WAITING,
        waiting_for=WaitingFor.BACKOFF,
        run_after=now + timedelta(seconds=retries.delay(rule, failed.failures)),
        **_demoted(record, today, now),
    )


def _demoted(record: Claimed, today: date, now: datetime) -> dict[str, Any]:
    return {"rank_day": order.demoted(record.rank_day, today), "tried_at": now}
