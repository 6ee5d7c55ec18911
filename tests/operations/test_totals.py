"""The running totals of attempts: they equal the history, and stay when that is pruned."""

from bisect import bisect_left
from collections import Counter
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest

from jobs import claiming, periodic, settling
from jobs.handlers import Kind, registry
from jobs.models import Attempt
from jobs.outcomes import Failed, Succeeded, Unavailable
from jobs.states import AttemptOutcome
from jobs.worker.heartbeat import Heartbeat
from jobs.worker.units import Units
from operations import totals
from operations.models import AttemptTotal
from tests.factories import NOON, make_record, make_worker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _kinds(monkeypatch):
    totals._numbers.clear()
    totals._seconds.clear()
    monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    registry.add(Kind("plain"))
    registry.add(Kind("hooked", after_settle=lambda results, now: None))


def settle_some(worker_id: int) -> None:
    for kind, outcome, seconds in (
        ("plain", Succeeded(), 0.05),
        ("plain", Failed("no"), 0.5),
        ("hooked", Succeeded(), 30),
        ("hooked", Unavailable("silent", 60), 7 * 3600),
    ):
        for _ in range(2):
            make_record(kind=kind, subject=str(uuid4()), payload={"sort": "sftp"})
        claimed = claiming.claim("default", worker_id=worker_id, limit=2, now=NOON)
        settling.settle([(record, outcome) for record in claimed], now=NOON + timedelta(seconds=seconds))


def test_they_equal_the_history_and_stay_when_it_is_pruned():
    worker = make_worker()
    settle_some(worker.pk)
    with closing(Units([], print, room_made=print, after_thread=print)) as units:  # or its event loop turns for ever
        Heartbeat(worker.pk, units).beat()
    stored = AttemptTotal.objects.values_list("kind", "queue", "outcome", "up_to", "number", "seconds")
    recounted, spent = Counter(), Counter()
    for attempt in Attempt.objects.select_related("record"):
        took = (attempt.ended_at - attempt.started_at).total_seconds()
        key = (attempt.record.kind, attempt.queue, attempt.outcome, totals.STEPS[bisect_left(totals.STEPS, took)])
        recounted[key] += 1
        spent[key] += took
    assert {(*key, number, spent[key]) for key, number in recounted.items()} == set(stored)
    assert set(AttemptTotal.objects.values_list("sort", flat=True)) == {"sftp"}
    totals.write()  # nothing is added twice
    before = set(stored.all())
    settle_some(worker.pk)
    totals.write()
    periodic.prune(NOON + timedelta(days=1000))
    assert {(*row[:4], 2 * row[4], 2 * row[5]) for row in before} == set(stored.all())
    assert not Attempt.objects.filter(outcome=AttemptOutcome.SUCCEEDED).exists()


def test_what_could_not_be_written_is_added_later(monkeypatch):
    settle_some(make_worker().pk)
    with monkeypatch.context() as broken:
        broken.setattr(totals, "execute", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            totals.write()
    totals.write()
    assert sum(AttemptTotal.objects.values_list("number", flat=True)) == 8
