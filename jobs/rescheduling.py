"""Applies an edited retry policy to the records that wait by it already, counted from their last failure.

Each settle of a failure reads the policy, so the next failures wait by the edit. Records that wait already are moved
here. A failure whose settle read the policy just before the edit, and is written just after this has looked, waits once
more by the old policy.

Under any policy, no record is tried before the time that the failing server asked for (`Retry-After`), which is among
the facts of the failed attempt. A retry by a user ignores it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from jobs import rollouts
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Origin, RetryPolicy
from jobs.prepared_statements import execute
from jobs.retries import DEFAULT, RNG, Failure, Rng, Rule
from jobs.states import Status, WaitingFor
from jobs.transitions import RETRY_AFTER, honoured, wait_after

BY_POLICY = (WaitingFor.BACKOFF, WaitingFor.SWEEP)
FACTS = (
    "status", "attempt", "waiting_for", "run_after", "failures", "first_failure_at", "last_failure_at",
    "inserted_at", "retry_policy_id",
)  # fmt: skip

# Onto the primary key; the rows are locked by this transaction.
MOVE = """
UPDATE jobs_backlogrecord b
   SET waiting_for = w.waiting_for, run_after = w.run_after
  FROM unnest(%(id)s::bigint[], %(waiting_for)s::smallint[], %(run_after)s::timestamptz[])
       AS w(id, waiting_for, run_after)
 WHERE b.id = w.id
"""

# Served by the key of the attempts. Only the latest attempt counts: it was made after the time that an earlier one had
# asked for, or because a user wanted it.
ASKED_FOR = f"""
SELECT a.record_id, (a.facts ->> '{RETRY_AFTER}')::float8
  FROM unnest(%(ids)s::bigint[], %(numbers)s::int[]) AS latest(record_id, number)
  JOIN jobs_attempt a ON a.record_id = latest.record_id AND a.number = latest.number
 WHERE jsonb_typeof(a.facts -> '{RETRY_AFTER}') = 'number'
"""


def last_failure_of(record: BacklogRecord) -> Failure | None:
    """The failure from which the next retry of a record is computed; None if it never failed."""
    if not record.failures or record.last_failure_at is None:
        return None
    return Failure(
        number=record.failures,
        at=record.last_failure_at.timestamp(),
        first_at=record.first_failure_at.timestamp() if record.first_failure_at else None,
        inserted_at=record.inserted_at.timestamp(),
        record_id=record.pk,
    )


def wait_of(
    record: BacklogRecord,
    now: datetime,
    rng: Rng = RNG,
    *,
    rule: Rule | None = None,
    retry_after: float | None = None,
) -> tuple[WaitingFor, datetime] | None:
    """The wait of a record because of its failure, and its latest end. None if it no longer has to wait.

    By `rule`, or otherwise by its present retry policy. Random parts are drawn again. A last failure in the future
    (a clock that was wrong) counts as one of now. `retry_after`: seconds for which the server at which it failed asked
    to be left alone; by default those of its latest attempt.
    """
    failure = last_failure_of(record)
    if failure is None:
        return None
    if failure.at > now.timestamp():
        failure = replace(failure, at=now.timestamp())
    asked = honoured(asked_for([record]).get(record.pk, 0.0) if retry_after is None else retry_after)
    if failure.at + asked <= now.timestamp():
        asked = 0.0  # that time is over, and sweeps may take it
    waiting_for, until = wait_after(failure, rule or _rule_of(record), rng, retry_after=asked)
    return (waiting_for, until) if until > now else None


def asked_for(records: Sequence[BacklogRecord]) -> dict[int, float]:
    """Record id → the seconds for which its latest attempt asked not to be tried again; without those that did not."""
    if not records:
        return {}
    keys = {"ids": [record.pk for record in records], "numbers": [record.attempt for record in records]}
    found: dict[int, float] = dict(execute(ASKED_FOR, keys).fetchall())
    return found


def _rule_of(record: BacklogRecord) -> Rule:
    """The rule of its policy. As in a settle, the default if it has none, or if its policy was just deleted."""
    try:
        return record.retry_policy.usable_rule() if record.retry_policy else DEFAULT
    except RetryPolicy.DoesNotExist:
        return DEFAULT


def apply(policy: RetryPolicy, *, now: datetime | None = None, rng: Rng = RNG) -> int:
    """Let records that wait by `policy` wait by its present row; the next tick promotes those that have waited long
    enough.

    Must be called after the edit is committed, otherwise the records stay locked until it is. It works in batches, each
    a transaction that locks its records in id order; records claimed or settled in the meantime are skipped. Returns
    the number of records whose wait has changed; a worker finishes a long backlog in the background (`rollouts`).
    """
    waiting = _waiting_by(policy.pk)
    return rollouts.roll_out("retry policy", policy.pk, title=policy.name, of=waiting.count, now=now, rng=rng)


def follow(origin: Origin, *, now: datetime | None = None, rng: Rng = RNG) -> int:
    """Give an origin's unfinished records the retry policy that its row names now, and the waiting ones its waits.

    Otherwise a record that never gives up would stay with the policy that it was emitted with. Running records follow
    at their next claim. Called, locked and counted as `apply`.
    """
    records = BacklogRecord.objects.filter(origin_id=origin.pk).unfinished()
    return rollouts.roll_out("schedule", origin.pk, title=origin.name, of=records.count, now=now, rng=rng)


def _waiting_by(policy_id: int) -> QuerySet[BacklogRecord]:
    waiting = BacklogRecord.objects.filter(status=Status.WAITING, waiting_for__in=BY_POLICY)
    return waiting.filter(retry_policy_id=policy_id)


def _apply_step(policy_id: int, after: int, now: datetime | None = None, rng: Rng = RNG) -> rollouts.Batch:
    return _apply_to(_waiting_by(policy_id), after, policy_id, now, rng)


def _follow_step(origin_id: int, after: int, now: datetime | None = None, rng: Rng = RNG) -> rollouts.Batch:
    policy_id = Origin.objects.filter(pk=origin_id).values_list("retry_policy_id", flat=True).first()
    others = BacklogRecord.objects.filter(origin_id=origin_id).unfinished()
    others = others.exclude(retry_policy_id=policy_id) if policy_id else others.exclude(retry_policy_id=None)
    return _apply_to(others, after, policy_id, now, rng)


@transaction.atomic
def _apply_to(
    records: QuerySet[BacklogRecord], after: int, policy_id: int | None, now: datetime | None, rng: Rng
) -> rollouts.Batch:
    """The next batch of `records`, which follow the policy of that id."""
    ids = list(records.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[: rollouts.BATCH])
    if not ids:
        return rollouts.Batch(None)
    locked = list(records.filter(pk__in=ids).order_by("pk").only(*FACTS).select_for_update())
    # both are read once the records are locked: no failure that was settled in the meantime is in the future then, and
    # of two edits at once the later one prevails
    instant = now or database_clock()
    policy = RetryPolicy.objects.filter(pk=policy_id).first() if policy_id is not None else None
    if policy is None and policy_id is not None:
        return rollouts.Batch(None)
    others = [record.pk for record in locked if record.retry_policy_id != policy_id]
    BacklogRecord.objects.filter(pk__in=others).update(retry_policy=policy)
    waiting = [each for each in locked if each.status == Status.WAITING and each.waiting_for in BY_POLICY]
    changed = _move(waiting, policy.usable_rule() if policy else DEFAULT, instant, rng)
    return rollouts.Batch(ids[-1], len(ids), changed)


def _move(waiting: list[BacklogRecord], rule: Rule, now: datetime, rng: Rng) -> int:
    moved = []
    asked = asked_for(waiting)
    for record in waiting:
        wait = wait_of(record, now, rng, rule=rule, retry_after=asked.get(record.pk, 0.0))
        wait = wait or (WaitingFor.BACKOFF, min(record.run_after, now))
        if wait != (record.waiting_for, record.run_after):
            moved.append((record.pk, *wait))
    if moved:
        columns = zip(*moved, strict=True)
        execute(MOVE, dict(zip(("id", "waiting_for", "run_after"), map(list, columns), strict=True)))
    return len(moved)


rollouts.register("retry policy", _apply_step)
rollouts.register("schedule", _follow_step)
