"""A server's `Retry-After` outlives an edit of the retry policy; a user may ignore it."""

from datetime import datetime
from typing import Any

import pytest

from declarations.surfaces.printable import facts_as_text
from jobs import backlog, rescheduling
from jobs.models import Attempt, BacklogRecord, RetryPolicy
from jobs.outcomes import Failed, Outcome
from jobs.prepared_statements import LARGEST_FACTS
from jobs.states import Status, WaitingFor
from tests.factories import NOON, make_record, make_retry_policy, make_schedule, settled
from tests.jobs.backoffs import DAY, HOUR, LATER, MINUTE, wait

pytestmark = pytest.mark.django_db

BUSY = Failed("busy", retry_after=5 * 3600, facts={"status": 429})


def busy(policy: RetryPolicy | None, outcome: Outcome = BUSY, **fields: Any) -> BacklogRecord:
    """It failed at noon, at a server that asked to be left alone for five hours."""
    make_record(retry_policy=policy, **fields)
    return settled(outcome)


def edit(policy: RetryPolicy, **fields: Any) -> RetryPolicy:
    RetryPolicy.objects.filter(pk=policy.pk).update(**fields)
    return policy


@pytest.fixture
def policy() -> RetryPolicy:
    return make_retry_policy(parameters={"base": 36_000})


@pytest.mark.parametrize(
    ("seconds", "facts", "kept"),
    [
        (18_000, {"status": 429}, {"status": 429, "retry_after": 18_000}),
        *((seconds, {}, {"retry_after": 86_400}) for seconds in (1e300, float("inf"), 2 * 86_400)),
        *((seconds, {"status": 503}, {"status": 503}) for seconds in (0, -5, float("nan"))),
    ],
)
def test_the_facts_of_the_attempt_say_what_was_asked_for_a_day_at_most(seconds: float, facts: Any, kept: Any) -> None:
    busy(None, Failed("busy", retry_after=seconds, facts=facts))
    assert Attempt.objects.get().facts == kept


@pytest.mark.parametrize("facts", [{"a": "x" * LARGEST_FACTS}, {1: 2}])
def test_they_say_it_also_when_the_others_cannot_be_kept(facts: dict[Any, Any]) -> None:
    busy(None, Failed("busy", retry_after=60, facts=facts))
    assert facts_as_text(Attempt.objects.get().facts).endswith("retry after 60")


class TestAnEditedPolicy:
    @pytest.mark.parametrize(
        ("edited", "now", "expected"),
        [
            # what waits for less is not brought forward, and no sweep comes before
            ({"parameters": {"base": 60}}, LATER, (WaitingFor.BACKOFF, NOON + 5 * HOUR)),
            ({"algorithm": "progressive", "parameters": {}}, LATER, (WaitingFor.BACKOFF, NOON + 5 * HOUR)),
            ({"parameters": {"base": 72_000}}, LATER, (WaitingFor.BACKOFF, NOON + 20 * HOUR)),
            # once that time is over it is due, or sweeps may come
            ({"parameters": {"base": 60}}, NOON + 6 * HOUR, (WaitingFor.BACKOFF, NOON + 6 * HOUR)),
            ({"algorithm": "progressive", "parameters": {}}, NOON + 5 * HOUR, (WaitingFor.SWEEP, NOON + 360 * DAY)),
        ],
    )
    def test_keeps_to_the_time_that_was_asked_for(
        self, edited: dict[str, Any], now: datetime, expected: Any, policy: RetryPolicy
    ) -> None:
        record = busy(policy)
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 10 * HOUR)
        assert rescheduling.apply(edit(policy, **edited), now=now) == 1
        assert wait(record) == expected

    def test_is_not_held_up_by_what_an_earlier_failure_asked_for(self, policy: RetryPolicy) -> None:
        record = busy(policy)
        backlog.retry([record.pk], now=NOON + MINUTE)
        assert settled(Failed("no"), NOON + MINUTE).attempt == 2
        rescheduling.apply(edit(policy, parameters={"base": 60}), now=NOON + MINUTE)
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 2 * MINUTE)

    @pytest.mark.parametrize("kept", [{"retry_after": "soon"}, {"retry_after": None}, {"retry_after": -5}, {}, None])
    def test_takes_what_is_no_number_of_seconds_for_nothing(self, policy: RetryPolicy, kept: Any) -> None:
        record = busy(policy)
        Attempt.objects.update(facts=kept)
        rescheduling.apply(edit(policy, parameters={"base": 7200}), now=LATER)
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 2 * HOUR)

    def test_reads_it_for_all_records_of_a_batch_in_one_question(
        self, policy: RetryPolicy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records = [busy(policy) for _ in range(5)]
        asked: list[str] = []
        real = rescheduling.execute

        def execute(sql: str, values: dict[str, Any]) -> Any:
            asked.append(sql)
            return real(sql, values)

        monkeypatch.setattr(rescheduling, "execute", execute)
        rescheduling.apply(edit(policy, parameters={"base": 60}), now=LATER)
        assert asked == [rescheduling.ASKED_FOR, rescheduling.MOVE]
        assert {wait(record) for record in records} == {(WaitingFor.BACKOFF, NOON + 5 * HOUR)}


def test_another_policy_of_its_schedule_does_not_bring_it_forward(policy: RetryPolicy) -> None:
    schedule = make_schedule(retry_policy=make_retry_policy(parameters={"base": 60}))
    record = busy(policy, origin=schedule)
    assert rescheduling.follow(schedule, now=LATER) == 1
    assert wait(record) == (WaitingFor.BACKOFF, NOON + 5 * HOUR)


def test_the_wait_of_a_record_is_what_was_asked_for_until_that_is_over() -> None:
    record = busy(None)
    assert rescheduling.wait_of(record, LATER) == (WaitingFor.BACKOFF, NOON + 5 * HOUR)
    assert rescheduling.wait_of(record, NOON + 5 * HOUR) is None


def test_a_person_who_retries_it_does_not_wait_for_that_time_and_no_edit_overrules_that(policy: RetryPolicy) -> None:
    record = busy(policy)
    backlog.retry([record.pk], now=NOON + MINUTE)
    assert rescheduling.apply(edit(policy, parameters={"base": 60}), now=NOON + MINUTE) == 0
    record.refresh_from_db()
    assert (record.status, record.run_after) == (Status.READY, NOON + MINUTE)
