"""An edited retry policy, given to what waits by it; and what a record waits for when something else is over."""

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import rescheduling, rollouts
from jobs.models import BacklogRecord, RetryPolicy
from jobs.retries import Rule
from jobs.retries.phases import PhasePlaces, phase
from jobs.states import Status, WaitingFor
from jobs.tick import promote
from tests.factories import NOON, make_record, make_retry_policy, make_schedule
from tests.jobs.backoffs import DAY, HOUR, LATER, MINUTE, failing, wait


def edit(policy: RetryPolicy, **fields: Any) -> RetryPolicy:
    for name, value in fields.items():
        setattr(policy, name, value)
    policy.save()
    return policy


@pytest.mark.django_db
class TestAnEdit:
    def test_counts_from_the_last_failure_of_each_record(self):
        policy = make_retry_policy(algorithm="constant", parameters={"base": 36_000})
        record = failing(policy)
        later = failing(policy, last_failure_at=NOON + MINUTE)
        edit(policy, algorithm="fibonacci", parameters={"unit": 3600})
        assert rescheduling.apply(policy, now=LATER) == 2
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 2 * HOUR)
        assert wait(later) == (WaitingFor.BACKOFF, NOON + 2 * HOUR + MINUTE)

    def test_makes_due_what_has_waited_long_enough_and_changes_nothing_the_second_time(self):
        policy, soon = (make_retry_policy(parameters={"base": base}) for base in (7200, 60))
        failing(policy)
        record = failing(soon)
        assert [rescheduling.apply(each, now=LATER) for each in (policy, soon)] == [1, 1]
        assert wait(record) == (WaitingFor.BACKOFF, LATER)
        assert [rescheduling.apply(each, now=LATER + MINUTE) for each in (policy, soon)] == [0, 0]
        assert promote(LATER) == 1

    def test_is_read_from_its_row_whatever_the_caller_holds(self):
        policy = make_retry_policy(parameters={"base": 7200})
        stale = RetryPolicy(pk=policy.pk, algorithm="constant", parameters={"base": 1})
        record = failing(policy)
        rescheduling.apply(stale, now=LATER)
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 2 * HOUR)

    def test_of_a_policy_that_is_gone_does_nothing(self):
        policy = make_retry_policy()
        record = failing(policy)
        RetryPolicy.objects.filter(pk=policy.pk)._raw_delete("default")
        assert rescheduling.apply(policy, now=LATER) == 0
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 10 * HOUR)

    def test_reaches_every_record_in_batches(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(rollouts, "BATCH", 3)
        monkeypatch.setattr(rollouts, "SECONDS", 600.0)
        policy = make_retry_policy(parameters={"base": 7200})
        records = [failing(policy) for _ in range(7)]
        with CaptureQueriesContext(connection) as queries:
            assert rescheduling.apply(policy, now=LATER) == 7
        assert sum("FOR UPDATE" in query["sql"] for query in queries) == 3
        assert {wait(record) for record in records} == {(WaitingFor.BACKOFF, NOON + 2 * HOUR)}

    def test_draws_anew_what_is_random(self):
        policy = make_retry_policy(algorithm="exponential", parameters={"jitter": "full", "least": 7200})
        records = [failing(policy) for _ in range(5)]
        rescheduling.apply(policy, now=NOON, rng=random.Random(1))
        first = [wait(record) for record in records]
        assert len(set(first)) == 5
        rescheduling.apply(policy, now=NOON, rng=random.Random(1))
        assert [wait(record) for record in records] == first
        rescheduling.apply(policy, now=NOON, rng=random.Random(2))
        assert [wait(record) for record in records] != first

    def test_gives_each_record_its_own_place_under_phased(self):
        policy = make_retry_policy(algorithm="phased", parameters={"unit": 900})
        records = [failing(policy, first_failure_at=NOON - 6 * HOUR) for _ in range(4)]
        rescheduling.apply(policy, now=NOON)
        line = PhasePlaces(900, 86_400)
        for record in records:
            waiting_for, until = wait(record)
            since_first = (until - record.first_failure_at).total_seconds()
            places = [line.place(k, phase(record.pk)) for k in range(1, 6)]
            assert waiting_for == WaitingFor.BACKOFF
            assert min(abs(since_first - place) for place in places) < 0.01

    @pytest.mark.parametrize(
        ("rule", "failed", "expected"),
        [
            # between sweeps and a delay of its own
            ({"algorithm": "fibonacci", "parameters": {"unit": 60}, "max_delay": 86_400},
             {"waiting_for": WaitingFor.SWEEP, "run_after": NOON + 360 * DAY, "failures": 288},
             (WaitingFor.BACKOFF, NOON + DAY)),
            ({"algorithm": "progressive"}, {"inserted_at": NOON - 5 * DAY}, (WaitingFor.SWEEP, NOON + 355 * DAY)),
            # what is older than all sweeps has one more try
            ({"algorithm": "progressive"}, {"inserted_at": NOON - 400 * DAY}, (WaitingFor.BACKOFF, LATER)),
            # a failure in the future is one of now
            ({"parameters": {"base": 60}}, {"last_failure_at": NOON + 9 * DAY, "run_after": NOON + 10 * DAY},
             (WaitingFor.BACKOFF, LATER + MINUTE)),
        ],
    )  # fmt: skip
    def test_moves_between_sweeps_and_delays(self, rule: dict, failed: dict, expected: tuple):
        policy = make_retry_policy(**rule)
        record = failing(policy, **failed)
        assert rescheduling.apply(policy, now=LATER) == 1
        assert wait(record) == expected


@pytest.mark.django_db
class TestAnEditLeavesAlone:
    def test_what_does_not_wait_by_it(self):
        policy = make_retry_policy(parameters={"base": 60})
        others = [
            *(failing(policy, waiting_for=each) for each in WaitingFor if each not in rescheduling.BY_POLICY),
            *(failing(each) for each in (make_retry_policy(), None)),
            *(make_record(each, retry_policy=policy, failures=3) for each in (Status.READY, Status.RUNNING)),
            make_record(Status.FAILED, retry_policy=policy, failures=3),
        ]
        facts = BacklogRecord.objects.filter(pk__in=[each.pk for each in others]).order_by("pk").values()
        before = list(facts)
        assert rescheduling.apply(policy, now=LATER) == 0
        assert list(facts.all()) == before

    def test_everything_but_the_wait_of_a_record(self):
        policy = make_retry_policy(parameters={"base": 60})
        record = failing(policy, last_error="no", priority=5, tried_at=NOON)
        before = BacklogRecord.objects.filter(pk=record.pk).values().get()
        rescheduling.apply(policy, now=LATER)
        assert BacklogRecord.objects.filter(pk=record.pk).values().get() == before | {"run_after": LATER}


@pytest.mark.django_db
class TestWaitOfARecord:
    def test_is_nothing_where_it_never_failed_by_itself_or_once_it_is_over(self):
        policy = make_retry_policy(parameters={"base": 300})
        assert rescheduling.wait_of(make_record(Status.WAITING, retry_policy=policy), LATER) is None
        of_an_earlier_one = make_record(retry_policy=policy, failures=3, last_failure_at=None)
        assert rescheduling.wait_of(of_an_earlier_one, LATER) is None
        record = failing(policy)
        assert [rescheduling.wait_of(record, NOON + minute * MINUTE) is None for minute in (4, 5, 6)] == [
            False, True, True,
        ]  # fmt: skip

    def test_without_a_policy_or_with_one_that_was_deleted_under_it_is_that_of_the_default(self):
        policy = make_retry_policy(parameters={"base": 36_000})
        failing(policy), failing(None)
        RetryPolicy.objects.filter(pk=policy.pk)._raw_delete("default")
        for found in (*BacklogRecord.objects.all(), *BacklogRecord.objects.select_related("retry_policy")):
            assert rescheduling.wait_of(found, NOON) == (WaitingFor.BACKOFF, NOON + 2 * MINUTE)

    def test_may_be_asked_for_another_rule(self):
        record = failing(make_retry_policy(parameters={"base": 36_000}))
        rule = Rule("constant", {"base": 60})
        assert rescheduling.wait_of(record, NOON, rule=rule) == (WaitingFor.BACKOFF, NOON + MINUTE)

    def test_under_progressive_is_a_sweep_until_it_is_too_old(self):
        record = failing(make_retry_policy(algorithm="progressive"), inserted_at=NOON - 10 * DAY)
        assert rescheduling.wait_of(record, NOON) == (WaitingFor.SWEEP, NOON + 350 * DAY)
        assert rescheduling.wait_of(record, NOON + 350 * DAY) is None


@pytest.mark.django_db
class TestAScheduleWithAnotherPolicy:
    def test_gives_it_to_its_unfinished_records_and_what_waits_by_it_waits_anew(self):
        before, chosen = make_retry_policy(parameters={"base": 36_000}), make_retry_policy(parameters={"base": 7200})
        schedule = make_schedule(retry_policy=chosen)
        waiting = failing(before, origin=schedule)
        without = failing(None, origin=schedule)
        idle = [make_record(status, origin=schedule, retry_policy=before) for status in (Status.READY, Status.RUNNING)]
        assert rescheduling.follow(schedule, now=LATER) == 2
        assert wait(waiting) == wait(without) == (WaitingFor.BACKOFF, NOON + 2 * HOUR)
        for record in (waiting, without, *idle):
            record.refresh_from_db()
            assert record.retry_policy_id == chosen.pk
        assert [record.run_after for record in idle] == [NOON, NOON]

    def test_that_is_none_brings_the_default_and_leaves_alone_what_ended_and_what_is_not_its_own(self):
        other = make_retry_policy(parameters={"base": 7200})
        schedule = make_schedule(retry_policy=None)
        record = failing(other, origin=schedule)
        records = [
            failing(None, origin=schedule),
            failing(other),
            failing(other, origin=make_schedule(retry_policy=other)),
            make_record(Status.FAILED, failures=3, origin=schedule, retry_policy=other),
        ]
        facts = BacklogRecord.objects.filter(pk__in=[record.pk for record in records]).order_by("pk").values()
        before = list(facts)
        assert rescheduling.follow(schedule, now=NOON) == 1
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 2 * MINUTE)
        assert record.retry_policy_id is None
        assert list(facts.all()) == before

    def test_lets_what_waits_for_something_else_wait_but_under_it(self):
        chosen, other = make_retry_policy(parameters={"base": 60}), make_retry_policy()
        schedule = make_schedule(retry_policy=chosen)
        record = failing(other, origin=schedule, waiting_for=WaitingFor.SNOOZE)
        assert rescheduling.follow(schedule, now=LATER) == 0
        assert wait(record) == (WaitingFor.SNOOZE, NOON + 10 * HOUR)
        assert record.retry_policy_id == chosen.pk


@pytest.mark.django_db
def test_an_edit_that_another_got_ahead_of_at_the_same_moment_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rollouts.steps, "step", lambda row, after: rollouts.Batch(after + 3, rollouts.BATCH, 1))
    monkeypatch.setattr(rollouts, "SECONDS", -1.0)

    def count_beside_the_other_edit() -> int:
        return rollouts.roll_out("step", 7, title="of seven", of=lambda: 9)

    rollouts.roll_out("step", 7, title="of seven", of=count_beside_the_other_edit)
    edit = BacklogRecord.objects.get(kind=rollouts.KIND)
    assert [edit.payload[name] for name in ("reached", "done", "edits")] == [0, 0, 2]
