"""Retry and cancel of what waits for a sweep or a breaker, also at the moment at which these let it through."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs import backlog, breakers, claiming, settling, sweeps
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import BreakerTarget, Failed, Held
from jobs.states import Status, WaitingFor
from tests.factories import NOON, make_record, make_worker
from tests.jobs.backlog.changes import fresh
from tests.threads import a_lock_is_waited_for, at_once, beside
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("kind_of_tests")]

LATER = NOON + timedelta(minutes=10)
NAS = BreakerTarget("repository:1", "nas")


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


class TestOfABreaker:
    def test_the_first_retried_record_is_the_trial_and_waits_again_without_a_failure_if_that_fails(self) -> None:
        breaker, worker = make_breaker(), make_worker()
        first, second = held(breaker, failures=2), held(breaker)
        assert backlog.retry([second.pk, first.pk], now=LATER).ready == [first.pk, second.pk]
        found = fresh(first)
        assert (found.status, found.waiting_for, found.breaker_id) == (Status.READY, None, None)
        assert (found.failures, found.run_after) == (2, LATER)
        claimed = {each.id: each for each in claiming.claim("default", worker_id=worker.pk, limit=2, now=LATER)}
        assert breakers.refusal(NAS, claimed[first.pk]) is None
        assert isinstance(breakers.refusal(NAS, claimed[second.pk]), Held)
        settling.settle([(claimed[first.pk], Failed("no space left", fault_of=NAS))], now=LATER)
        found = fresh(first)
        assert (found.waiting_for, found.breaker_id, found.failures) == (WaitingFor.BREAKER, breaker.pk, 2)
        assert Breaker.objects.get().trials == 1

    def test_what_is_cancelled_or_opened_again_waits_for_none(self) -> None:
        breaker = make_breaker(opened_at=None)
        record, ended = held(breaker), make_record(Status.FAILED, breaker=breaker, failures=3)
        assert backlog.cancel([record.pk], now=LATER).cancelled == [record.pk]
        backlog.retry([ended.pk, held(breaker).pk], now=LATER)
        assert (fresh(record).status, fresh(record).breaker_id) == (Status.CANCELLED, None)
        assert (fresh(ended).breaker_id, fresh(ended).failures) == (None, 0)
        assert Breaker.objects.get().trial_id is None  # of a breaker that has closed nothing is a trial

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


ACTIONS: dict[str, Callable[[list[int]], Any]] = {
    "retry": lambda ids: backlog.retry(ids, now=LATER),
    "cancel": lambda ids: backlog.cancel(ids, now=LATER),
}


@pytest.mark.parametrize("verb", ACTIONS)
class TestAtTheSameMoment:
    def test_sweeps_and_breakers_skip_what_a_person_holds(self, verb: str) -> None:
        breaker = make_breaker(opened_at=None, probe_at=NOON)
        mine, others = [swept(), held(breaker)], [swept(), held(breaker)]
        with transaction.atomic():
            ACTIONS[verb]([record.pk for record in mine])
            assert beside(lambda: sweeps.sweep_tier(1, now=LATER)).result(timeout=PATIENCE).ready == 1
            assert beside(lambda: breakers.let_trials_through(LATER)).result(timeout=PATIENCE) == 1
        after = Status.READY if verb == "retry" else Status.CANCELLED
        assert [fresh(record).status for record in mine + others] == [after, after, Status.READY, Status.READY]
        assert sweeps.sweep_tier(1, now=LATER).ready == 0

    def test_a_person_waits_for_a_sweep_under_way_and_finds_what_it_left(self, verb: str) -> None:
        record = swept()
        with transaction.atomic():
            assert sweeps.sweep_tier(1, now=LATER).ready == 1
            acting = beside(lambda: ACTIONS[verb]([record.pk]))
            eventually(a_lock_is_waited_for)
        acting.result(timeout=PATIENCE)
        assert fresh(record).status == (Status.READY if verb == "retry" else Status.CANCELLED)

    def test_no_one_waits_in_a_circle_with_a_settle_that_counts_for_the_breaker(self, verb: str) -> None:
        """Records first, then breakers: the other way round each would hold what the other one waits for."""
        breaker, worker = make_breaker(), make_worker()
        for _ in range(5):
            waiting, running = held(breaker), make_record()
            [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1, now=LATER)
            assert claimed.id == running.pk
            at_once(
                lambda: ACTIONS[verb]([waiting.pk, running.pk]),  # noqa: B023
                lambda: settling.settle([(claimed, Failed("full", fault_of=NAS))], now=LATER),  # noqa: B023
                lambda: breakers.let_trials_through(LATER + timedelta(days=2)),
            )
            BacklogRecord.objects.all().delete()
