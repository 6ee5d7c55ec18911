"""The input of a handler, and the values that it may return.

A handler returns a value; it never writes the record. `jobs.transitions` computes the record's next state, and
`jobs.settling.settle` writes that, fenced.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple, get_args
from uuid import UUID

from jobs.states import WaitingFor

MAX_ERROR_LENGTH = 4000


class ClaimedRecord(NamedTuple):
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
    origin_id: int | None
    retry_policy_id: int | None
    exclusive_key: str | None
    lane: int
    payload: dict[str, Any]
    worker_id: int
    lease_token: UUID


RECORD_COLUMNS = ", ".join(ClaimedRecord._fields[:-2])
"""Columns of the table, as the fields of `ClaimedRecord`, without those of the lease, which a claim knows."""

Facts = dict[str, Any]


class BreakerTarget(NamedTuple):
    """The target of a circuit breaker: a stable key, such as `repository:3`, and its name for users."""

    key: str
    title: str


@dataclass(frozen=True)
class Succeeded:
    """The work is done. `result` is handed to the kind's settle hook. `proves`: the breaker's target that this shows to
    work.

    `facts`: a small flat dictionary that is kept with the attempt, such as the status of an answer.
    """

    result: Any = None
    proves: BreakerTarget | None = None
    facts: Facts | None = None


@dataclass(frozen=True)
class Failed:
    """The work failed. Counts as a failure; the retry policy says when to try again.

    `fault_of`: the target that failed, if that was not the record's subject: its breaker counts the failure, and once
    that is open the record waits for it (`Held`) without a failure. `retry_after`: seconds for which the target asked
    not to be tried again; honoured up to a day, also when the retry policy is edited, and kept with the attempt as the
    fact of that name. `facts`: further facts that are kept with the attempt. `result`: what was done before that, for
    the kind's settle hook.
    """

    error: str
    rescued: bool = False
    fault_of: BreakerTarget | None = None
    retry_after: float = 0.0
    facts: Facts | None = None
    result: Any = None


@dataclass(frozen=True)
class Unavailable:
    """Its subject did not answer. Not a failure: it costs no retry.

    `recheck_after` in seconds. `first_in_line`: it was lost a moment ago; its re-check comes before everything else and
    it keeps its place. `woken`: likewise, and its re-check waits for no shortage; once it answers it stays first until
    its next attempt has ended. `lost_again`: it went away during the work, and not for the first time in a row: it is
    demoted, and no answer ends that. `keeps_place`: it is not demoted. `silent_for`: seconds for which it may have been
    silent when that was found out; None if it was since it was claimed.
    """

    reason: str
    recheck_after: float
    first_in_line: bool = False
    woken: bool = False
    lost_again: bool = False
    keeps_place: bool = False
    silent_for: float | None = None


@dataclass(frozen=True)
class Handoff:
    """This queue's part is done; continue in `queue`, under `exclusive_key` (at most one running record for each key).

    `found`: a text for the log. `lost_at`: the instant of the latest of several losses in a row, which keep its place;
    if it is None, the record ranks as if there had been no silence.
    """

    queue: str
    exclusive_key: str | None = None
    found: str = ""
    lost_at: datetime | None = None


@dataclass(frozen=True)
class Cancelled:
    """A user no longer wants it."""

    reason: str = ""


@dataclass(frozen=True)
class Released:
    """Given back unspent: the worker shuts down. `result`: what was done before that, for the kind's settle hook."""

    reason: str = "the worker was stopped"
    result: Any = None


@dataclass(frozen=True)
class Postponed:
    """Not now, and no failure: it waits for `waiting_for` until `until` (aware), and keeps its place."""

    until: datetime
    waiting_for: WaitingFor
    reason: str


@dataclass(frozen=True)
class Held:
    """A breaker is open: the record waits until it lets it through (`jobs/breakers/`), and keeps its place.

    It counts as a failure of the breaker's target only. `tried`: this very attempt failed because of it, with `reason`.
    """

    breaker_id: int
    reason: str
    tried: bool = False
    facts: Facts | None = None


Outcome = Succeeded | Failed | Unavailable | Handoff | Cancelled | Released | Postponed | Held
OUTCOMES = frozenset(get_args(Outcome))

Result = tuple[ClaimedRecord, Outcome]
"""An attempt that has ended, and its outcome."""
Results = Sequence[Result]
