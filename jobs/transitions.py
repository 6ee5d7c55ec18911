"""The effect of an outcome on its record.

`transition` computes the next state of a record from the value that its handler returned (`jobs/outcomes.py`), without
clock or database; `changes_of` reads the facts that it needs of many records, and `jobs.settling.settle` writes the
states, fenced.
"""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from jobs import order, priorities, retries
from jobs.handlers import registry
from jobs.models import Origin, RetryPolicy
from jobs.outcomes import (
    MAX_ERROR_LENGTH,
    Cancelled,
    ClaimedRecord,
    Failed,
    Handoff,
    Held,
    Outcome,
    Postponed,
    Released,
    Succeeded,
    Unavailable,
)
from jobs.prepared_statements import facts_as_json, storable
from jobs.retries import tiers
from jobs.states import AttemptOutcome, Status, WaitingFor
from jobs.zones import zone_of

LOOKED_AT_AGAIN_AFTER = timedelta(days=1)
"""A record that waits for a breaker is let through by the breaker; if that is missed, it is made ready after a day."""

LONGEST_RETRY_AFTER = timedelta(days=1)
"""The longest time for which a server may ask to be left alone."""

RETRY_AFTER = "retry_after"
"""The fact of an attempt with the seconds for which it asked not to be tried again."""


class Transition(NamedTuple):
    """The next state of a settled record: the columns that the settle writes, and its attempt's outcome."""

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
    facts: str | None = None


Changes = list[tuple[ClaimedRecord, Transition]]


def changes_of(
    results: Sequence[tuple[ClaimedRecord, Outcome]], inserted: dict[int, datetime], now: datetime
) -> Changes:
    """The next state of each record at `now` (aware UTC), by its kind, its origin and its retry policy.

    `inserted`: record id → when it was put on the backlog. Two statements, however many the records.
    """
    policies = RetryPolicy.objects.in_bulk({r.retry_policy_id for r, o in results if isinstance(o, Failed)} - {None})
    rules: dict[int | None, retries.Rule] = {pk: policy.usable_rule() for pk, policy in policies.items()}
    origins: dict[int | None, Origin] = {**Origin.objects.in_bulk({r.origin_id for r, _ in results} - {None})}
    changes: Changes = []
    for record, outcome in results:
        origin = origins.get(record.origin_id)
        change = transition(
            record,
            outcome,
            home_queue=registry.home_of(record.kind, record.queue),
            rule=rules.get(record.retry_policy_id) or retries.DEFAULT,
            zone=origin.zone if origin else "UTC",
            usual_priority=origin.priority if origin else None,
            inserted_at=inserted.get(record.id),
            now=now,
        )
        changes.append((record, change))
    return changes


def columns_of(changes: Changes) -> dict[str, list[Any]]:
    """The values of `SETTLE`: a column of each field of a transition, and of the fence of its claim."""
    columns: dict[str, list[Any]] = {
        name: [getattr(change, name) for _, change in changes] for name in Transition._fields
    }
    for name in ("id", "attempt", "worker_id", "lease_token"):
        columns[name] = [getattr(record, name) for record, _ in changes]
    columns["from_queue"] = [record.queue for record, _ in changes]
    return columns


def transition(
    record: ClaimedRecord,
    outcome: Outcome,
    *,
    home_queue: str,
    rule: retries.Rule,
    zone: str,
    now: datetime,
    usual_priority: int | None = None,
    inserted_at: datetime | None = None,
    rng: retries.Rng = retries.RNG,
) -> Transition:
    """The next state of `record` after `outcome` at `now` (aware UTC).

    `home_queue` is where records of its kind wait: after any wait, it starts there again. `zone` is the IANA zone in
    which its days are counted. `usual_priority` is its origin's: a failure removes a user's addition. `inserted_at`:
    the instant at which it was put on the backlog; random parts of its wait come from `rng`.
    """
    today = now.astimezone(zone_of(zone)).date()
    kept = Transition(
        status=Status.READY,
        queue=home_queue,
        run_after=now,
        priority=priorities.usual(record.priority),
        rank_day=record.rank_day,
        tried_at=record.tried_at,
        failures=record.failures,
        first_failure_at=record.first_failure_at,
        last_failure_at=record.last_failure_at,
        attempt_outcome=AttemptOutcome.RELEASED,
        error=storable(
            outcome.error if isinstance(outcome, Failed) else getattr(outcome, "reason", ""), MAX_ERROR_LENGTH
        ),
        facts=facts_as_json(getattr(outcome, "facts", None)),
    )
    known = (record.due_day, record.failures, record.last_failure_at, inserted_at)
    place = partial(order.place_after_an_answer, *known, zone=zone, now=now)
    match outcome:
        case Succeeded():
            return kept._replace(status=Status.SUCCEEDED, finished_at=now, attempt_outcome=AttemptOutcome.SUCCEEDED)
        case Cancelled():
            return kept._replace(status=Status.CANCELLED, finished_at=now, attempt_outcome=AttemptOutcome.CANCELLED)
        case Released():
            return kept._replace(priority=record.priority)  # that it is first in line is not forgotten
        case Postponed():
            return waiting(kept, outcome.waiting_for, outcome.until)
        case Held():
            ended = AttemptOutcome.FAILED if outcome.tried else AttemptOutcome.RELEASED
            held = kept._replace(breaker_id=outcome.breaker_id, attempt_outcome=ended)
            return waiting(held, WaitingFor.BREAKER, now + LOOKED_AT_AGAIN_AFTER)
        case Handoff():
            rank_day, tried_at = place(lost_at=outcome.lost_at)
            answered = kept._replace(rank_day=rank_day, tried_at=tried_at, attempt_outcome=AttemptOutcome.HANDOFF)
            if priorities.is_woken(record.priority):  # else it might be asleep again before a unit takes it
                answered = answered._replace(priority=record.priority)
            return answered._replace(queue=outcome.queue, exclusive_key=outcome.exclusive_key)
        case Unavailable():
            silent = kept._replace(attempt_outcome=AttemptOutcome.UNAVAILABLE)
            silent = waiting(silent, WaitingFor.RECHECK, now + timedelta(seconds=outcome.recheck_after))
            if outcome.woken:
                return silent._replace(priority=priorities.woken(kept.priority))
            if outcome.first_in_line:
                return silent._replace(priority=priorities.first_in_line(kept.priority))
            if outcome.keeps_place:
                return silent
            usual = order.demoted(record.rank_day, today), now
            rank_day, tried_at = place(lost_at=now) if outcome.lost_again else usual
            return silent._replace(rank_day=rank_day, tried_at=tried_at)
        case Failed():
            if usual_priority is not None:
                kept = kept._replace(priority=usual_priority)
            return _after_failure(record, kept, outcome, rule, inserted_at, today, rng)


def waiting(change: Transition, waiting_for: WaitingFor, until: datetime) -> Transition:
    """The transition, but into a wait for `waiting_for` until `until` (aware), or until its own `run_after` if that is
    later.
    """
    return change._replace(status=Status.WAITING, waiting_for=waiting_for, run_after=max(until, change.run_after))


def _after_failure(
    record: ClaimedRecord,
    kept: Transition,
    outcome: Failed,
    rule: retries.Rule,
    inserted_at: datetime | None,
    today: date,
    rng: retries.Rng,
) -> Transition:
    now = kept.run_after
    # one in the future was dated by a wrong clock, and would delay everything that counts from it
    first_at = min(record.first_failure_at or now, now)
    failure = retries.Failure(
        number=record.failures + 1,
        at=now.timestamp(),
        first_at=first_at.timestamp() if record.first_failure_at or not record.failures else None,
        inserted_at=inserted_at.timestamp() if inserted_at else None,
        record_id=record.id,
    )
    failed = kept._replace(
        failures=failure.number,
        first_failure_at=first_at,
        last_failure_at=now,
        attempt_outcome=AttemptOutcome.RESCUED if outcome.rescued else AttemptOutcome.FAILED,
        facts=_with_retry_after(kept.facts, outcome),
    )
    if rule.gives_up(failure):
        return failed._replace(status=Status.FAILED, finished_at=now)
    demoted = failed._replace(rank_day=order.demoted_by_failure(record.due_day, today, failure.number), tried_at=now)
    return waiting(demoted, *wait_after(failure, rule, rng, retry_after=outcome.retry_after))


def _with_retry_after(facts: str | None, outcome: Failed) -> str | None:
    """The facts with the requested delay, even if its own facts could not be kept: an edit of the retry policy reads
    that again.
    """
    asked = honoured(outcome.retry_after)
    return json.dumps({**json.loads(facts or "{}"), RETRY_AFTER: round(asked, 3)}) if asked else facts


def honoured(retry_after: float) -> float:
    """Seconds of these for which a server is left alone: none if it is not a duration, a day at most."""
    return min(retry_after, LONGEST_RETRY_AFTER.total_seconds()) if retry_after > 0 else 0.0


def wait_after(
    failure: retries.Failure, rule: retries.Rule, rng: retries.Rng = retries.RNG, *, retry_after: float = 0.0
) -> tuple[WaitingFor, datetime]:
    """The reason of a record's wait after a failure that was not its last, and its latest end (aware UTC).

    `retry_after`: seconds from the failure on for which it asked to be left alone. No wait by the rule is shorter, and
    no sweep comes before.
    """
    failed_at = datetime.fromtimestamp(failure.at, UTC)
    asked = failed_at + timedelta(seconds=honoured(retry_after))
    if not rule.waits_for_sweeps:
        delay = timedelta(seconds=retries.delay(rule, failure, rng))
        return WaitingFor.BACKOFF, max(failed_at + delay, asked)
    if asked > failed_at:
        return WaitingFor.BACKOFF, asked
    return WaitingFor.SWEEP, datetime.fromtimestamp(failure.of_a_record_from + tiers.OLDEST, UTC)
