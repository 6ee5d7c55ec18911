"""Retry and cancel of what waits for a sweep or a breaker, also at the moment at which these let it through."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs import backlog, breakers, claiming, settling
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import Failed, Guarded, Held
from jobs.retries import sweeps
from jobs.states import Status, WaitingFor
from tests.factories import NOON, make_record, make_worker
from tests.threads import at_once, beside, somebody_waits_for_a_lock
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOON + timedelta(minutes=10)
NAS = Guarded("repository:1", "nas")


@pytest.fixture(autouse=True)
def _kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.kinds, "test", Kind("test"))


def make_breaker(**fields: Any) -> Breaker:
    values = {
        "key": NAS.key,
        "title": NAS.title,
        "failures": 5,
        "opened_at": NOON,
        "probe_at": NOON + timedelta(days=1),
    }
    return Breaker.objects.create(**(values | fields))


def held(breaker: Breaker, **fields: Any) -> BacklogRecord:
    return make_record(Status.WAITING, waiting_for=WaitingFor.BREAKER, breaker=breaker, **fields)


def swept(**fields: Any) -> BacklogRecord:
    return make_record(Status.WAITING, waiting_for=WaitingFor.SWEEP, failures=3, run_after=LATER, **fields)


def fresh(record: BacklogRecord) -> BacklogRecord:
    return BacklogRecord.objects.get(pk=record.pk)


class TestOfABreaker:
    def test_a_retried_record_waits_for_none_any_more_and_keeps_its_failures(self) -> None:
        record = held(make_breaker(), failures=2)
        assert backlog.retry([record.pk], now=LATER).ready == [record.pk]
        found = fresh(record)
        assert (found.status, found.waiting_for, found.breaker_id) == (Status.READY, None, None)
        assert (found.failures, found.run_after) == (2, LATER)

    def test_it_is_the_trial_so_its_handler_does_not_refuse_it(self) -> None:
        breaker, worker = make_breaker(), make_worker()
        first, second = held(breaker), held(breaker)
        backlog.retry([second.pk, first.pk], now=LATER)
        claimed = {each.id: each for each in claiming.claim("default", worker_id=worker.pk, limit=2, now=LATER)}
        assert breakers.refusal(NAS, claimed[first.pk]) is None
        assert isinstance(breakers.refusal(NAS, claimed[second.pk]), Held)

    @pytest.mark.parametrize("status", [Status.READY, Status.RUNNING])
    def test_a_trial_that_is_under_way_stays_it(self, status: Status) -> None:
        trial = make_record(status, worker=make_worker())
        breaker = make_breaker(trial_id=trial.pk)
        backlog.retry([held(breaker).pk], now=LATER)
        breaker.refresh_from_db()
        assert breaker.trial_id == trial.pk

    def test_of_several_breakers_each_has_its_trial(self) -> None:
        nas, attic = make_breaker(), make_breaker(key="repository:2", title="attic")
        records = [held(nas), held(attic), held(nas), held(attic)]
        backlog.retry([record.pk for record in records], now=LATER)
        trials = dict(Breaker.objects.values_list("key", "trial_id"))
        assert trials == {"repository:1": records[0].pk, "repository:2": records[1].pk}

    def test_of_a_breaker_that_has_closed_nothing_is_a_trial(self) -> None:
        breaker = make_breaker(opened_at=None)
        backlog.retry([held(breaker).pk], now=LATER)
        assert Breaker.objects.get().trial_id is None

    def test_a_trial_in_vain_makes_it_wait_again_without_a_failure(self) -> None:
        breaker, worker = make_breaker(), make_worker()
        record = held(breaker)
        backlog.retry([record.pk], now=LATER)
        [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1, now=LATER)
        settling.settle([(claimed, Failed("no space left", fault_of=NAS))], now=LATER)
        found = fresh(record)
        assert (found.waiting_for, found.breaker_id, found.failures) == (WaitingFor.BREAKER, breaker.pk, 0)
        assert Breaker.objects.get().trials == 1

    def test_a_cancelled_record_waits_for_none(self) -> None:
        record = held(make_breaker())
        assert backlog.cancel([record.pk], now=LATER).cancelled == [record.pk]
        found = fresh(record)
        assert (found.status, found.breaker_id, found.waiting_for) == (Status.CANCELLED, None, None)

    def test_what_is_opened_again_waits_for_none(self) -> None:
        """A row of before retries cleared it."""
        record = make_record(Status.FAILED, breaker=make_breaker(), failures=3)
        backlog.retry([record.pk], now=LATER)
        found = fresh(record)
        assert (found.breaker_id, found.failures, found.first_failure_at, found.last_failure_at) == (
            None,
            0,
            None,
            None,
        )


class TestOfASweep:
    def test_a_retried_record_is_ready_and_no_sweep_takes_it_again(self) -> None:
        record = swept()
        backlog.retry([record.pk], now=LATER)
        assert (fresh(record).status, fresh(record).failures) == (Status.READY, 3)
        assert sweeps.process_backlog(1, now=LATER).ready == 0


ACTIONS: dict[str, Callable[[list[int]], Any]] = {
    "retry": lambda ids: backlog.retry(ids, now=LATER),
    "cancel": lambda ids: backlog.cancel(ids, now=LATER),
}


@pytest.mark.parametrize("verb", ACTIONS)
class TestAtTheSameMoment:
    def test_a_sweep_passes_by_what_a_person_holds(self, verb: str) -> None:
        mine, others = swept(), swept()
        with transaction.atomic():
            ACTIONS[verb]([mine.pk])
            sweep = beside(lambda: sweeps.process_backlog(1, now=LATER))
            assert sweep.result(timeout=PATIENCE).ready == 1
        assert fresh(others).status == Status.READY
        assert fresh(mine).status == (Status.READY if verb == "retry" else Status.CANCELLED)

    def test_a_person_waits_for_a_sweep_under_way_and_finds_what_it_left(self, verb: str) -> None:
        record = swept()
        with transaction.atomic():
            assert sweeps.process_backlog(1, now=LATER).ready == 1
            acting = beside(lambda: ACTIONS[verb]([record.pk]))
            eventually(somebody_waits_for_a_lock)
        acting.result(timeout=PATIENCE)
        assert fresh(record).status == (Status.READY if verb == "retry" else Status.CANCELLED)

    def test_a_look_at_breakers_passes_by_what_a_person_holds(self, verb: str) -> None:
        breaker = make_breaker(opened_at=None, probe_at=NOON)
        mine, others = held(breaker), held(breaker)
        with transaction.atomic():
            ACTIONS[verb]([mine.pk])
            assert beside(lambda: breakers.look(LATER)).result(timeout=PATIENCE) == 1
        assert fresh(others).status == Status.READY
        assert fresh(mine).status == (Status.READY if verb == "retry" else Status.CANCELLED)

    def test_nobody_waits_in_a_circle_with_a_settle_that_counts_for_the_breaker(self, verb: str) -> None:
        """Records first, then breakers: the other way round each would hold what the other one waits for."""
        breaker, worker = make_breaker(), make_worker()
        for _ in range(10):
            waiting, running = held(breaker), make_record()
            [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1, now=LATER)
            assert claimed.id == running.pk
            at_once(
                lambda: ACTIONS[verb]([waiting.pk, running.pk]),  # noqa: B023
                lambda: settling.settle([(claimed, Failed("full", fault_of=NAS))], now=LATER),  # noqa: B023
                lambda: breakers.look(LATER + timedelta(days=2)),
            )
            BacklogRecord.objects.all().delete()
