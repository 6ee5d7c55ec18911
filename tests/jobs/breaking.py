"""A repository that fails for every record, in a few words: records claimed, failed for it, refused, let through."""

from datetime import datetime, timedelta

import jobs.tick
from jobs import breakers, settling
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import BreakerTarget, ClaimedRecord, Failed, Succeeded
from jobs.states import Status, WaitingFor
from tests.factories import NOON, claim_new, claim_ready

OFFICE = BreakerTarget("repository:3", "repository office")
CELLAR = BreakerTarget("repository:4", "repository cellar")
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
FULL = "no space left on device"


def fail(records: list[ClaimedRecord], now: datetime = NOON, guarded: BreakerTarget = OFFICE) -> None:
    """They fail for what is guarded."""
    settling.settle([(record, Failed(FULL, fault_of=guarded)) for record in records], now=now)


def succeed(records: list[ClaimedRecord], now: datetime = NOON, guarded: BreakerTarget = OFFICE) -> None:
    settling.settle([(record, Succeeded(proves=guarded)) for record in records], now=now)


def open_it(now: datetime = NOON, guarded: BreakerTarget = OFFICE) -> Breaker:
    """Three failures in a row, the last one at `now`. The records that failed are gone again."""
    openers = claim_new(3, now)
    fail(openers, now, guarded)
    BacklogRecord.objects.filter(pk__in=[record.id for record in openers]).delete()
    return breaker(guarded)


def breaker(guarded: BreakerTarget = OFFICE) -> Breaker:
    return Breaker.objects.get(key=guarded.key)


def hold(count: int = 1, now: datetime = NOON, guarded: BreakerTarget = OFFICE, **fields) -> list[int]:
    """This number of new records that ask, are refused and wait for the breaker. Returns their ids."""
    records = claim_new(count, now, **fields)
    refused = [(record, breakers.refusal(guarded, record)) for record in records]
    settling.settle([(record, held) for record, held in refused if held], now=now)
    assert held_ids() >= {record.id for record in records}
    return [record.id for record in records]


def held_ids() -> set[int]:
    waiting = BacklogRecord.objects.filter(status=Status.WAITING, waiting_for=WaitingFor.BREAKER)
    return set(waiting.values_list("pk", flat=True))


def ready_ids() -> list[int]:
    return list(BacklogRecord.objects.ready().in_claim_order().values_list("pk", flat=True))


def tick(now: datetime) -> None:
    jobs.tick.tick(now, rescue=False)


def trial(now: datetime) -> ClaimedRecord:
    """Let a trial through at `now` and claim it: the only record that is ready."""
    tick(now)
    [record] = claim_ready(now=now)
    assert breakers.refusal(OFFICE, record) is None
    return record
