"""An edited retry policy, given to the records that wait by it already, from their last failure on."""

from datetime import datetime

from django.db import transaction

from jobs.clock import database_clock
from jobs.models import BacklogRecord, RetryPolicy
from jobs.outcomes import wait_after
from jobs.retries import DICE, Dice, Failure, Rule
from jobs.states import Status, WaitingFor

BATCH = 1000
BY_POLICY = (WaitingFor.BACKOFF, WaitingFor.SWEEP)


def last_failure_of(record: BacklogRecord) -> Failure | None:
    """What the next retry of a record follows from; None: it never failed."""
    if not record.failures or record.last_failure_at is None:
        return None
    return Failure(
        number=record.failures,
        at=record.last_failure_at.timestamp(),
        first_at=record.first_failure_at.timestamp() if record.first_failure_at else None,
        inserted_at=record.inserted_at.timestamp(),
        record_id=record.pk,
    )


def wait_of(record: BacklogRecord, now: datetime, dice: Dice = DICE) -> tuple[WaitingFor, datetime] | None:
    """What a record has to wait for because it failed, and until when at the longest; None: nothing any more.

    A last failure in the future (a clock that was wrong) counts as one of now.
    """
    failure = last_failure_of(record)
    if failure is None:
        return None
    if failure.at > now.timestamp():
        failure = Failure(failure.number, now.timestamp(), failure.first_at, failure.inserted_at, failure.record_id)
    rule = record.retry_policy.as_rule() if record.retry_policy else Rule()
    waiting_for, until = wait_after(failure, rule, dice)
    return (waiting_for, until) if until > now else None


def apply(policy: RetryPolicy, *, now: datetime | None = None, dice: Dice = DICE) -> int:
    """Let what waits by `policy` wait as it says now; what has waited long enough is promoted by the next tick.

    In batches, each a transaction of its own. Returns how many records wait until another instant than before.
    """
    instant = now or database_clock()
    waiting = BacklogRecord.objects.filter(status=Status.WAITING, waiting_for__in=BY_POLICY, retry_policy=policy)
    ids = list(waiting.order_by("pk").values_list("pk", flat=True))
    return sum(_apply_to(policy, ids[start : start + BATCH], instant, dice) for start in range(0, len(ids), BATCH))


@transaction.atomic
def _apply_to(policy: RetryPolicy, ids: list[int], now: datetime, dice: Dice) -> int:
    locked = BacklogRecord.objects.filter(pk__in=ids, status=Status.WAITING, waiting_for__in=BY_POLICY)
    changed = []
    for record in locked.order_by("pk").select_for_update():
        record.retry_policy = policy
        waiting_for, until = wait_of(record, now, dice) or (WaitingFor.BACKOFF, now)
        if (waiting_for, until) != (record.waiting_for, record.run_after):
            record.waiting_for, record.run_after = waiting_for, until
            changed.append(record)
    BacklogRecord.objects.bulk_update(changed, ["waiting_for", "run_after"])
    return len(changed)
