"""What a handler found is kept with its attempt, whatever way it is settled; and who asks for patience gets it."""

from datetime import timedelta

import pytest

from jobs import claiming, settling
from jobs.formatting import LARGEST_FACTS, facts_as_json
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord, RetryPolicy
from jobs.outcomes import Claimed, Failed, Outcome, Succeeded
from jobs.states import WaitingFor
from tests.factories import NOON, make_record, make_worker

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def settled(outcome: Outcome, **facts: object) -> BacklogRecord:
    make_record(**facts)
    [claimed] = claiming.claim("default", worker_id=make_worker().pk, limit=1, now=NOON)
    settling.settle([(claimed, outcome)], now=NOON)
    return BacklogRecord.objects.get(pk=claimed.id)


class TestFacts:
    def test_of_a_plain_success_are_kept_beside_one_without(self) -> None:
        make_record(), make_record()
        claimed: list[Claimed] = claiming.claim("default", worker_id=make_worker().pk, limit=2, now=NOON)
        settling.settle([(claimed[0], Succeeded(facts={"status": 204})), (claimed[1], Succeeded())], now=NOON)
        found = Attempt.objects.order_by("record_id").values_list("facts", flat=True)
        assert list(found) == [{"status": 204}, None]

    def test_of_a_success_with_a_hook_and_of_a_failure_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "kinds", {"hooked": Kind("hooked", after_settle=lambda *_: None)})
        settled(Succeeded(facts={"status": 200, "seconds": 0.25}), kind="hooked")
        settled(Failed("it said no", facts={"status": 503}))
        found = Attempt.objects.order_by("record_id").values_list("facts", flat=True)
        assert list(found) == [{"status": 200, "seconds": 0.25}, {"status": 503}]

    @pytest.mark.parametrize(
        "facts", [{"a": "\0\ud800"}, {"a": float("nan")}, {"a": object()}, {"a": "x" * LARGEST_FACTS}, {1: 2}]
    )
    def test_that_cannot_be_kept_as_they_are_hold_up_no_settle(self, facts: dict) -> None:
        assert settled(Succeeded(facts=facts)).finished_at
        assert len(facts_as_json(Attempt.objects.get().facts) or "") <= LARGEST_FACTS


class TestRetryAfter:
    def test_puts_off_the_next_attempt(self) -> None:
        record = settled(Failed("busy", retry_after=3600))
        assert (record.waiting_for, record.run_after) == (WaitingFor.BACKOFF, NOON + HOUR)

    def test_does_not_bring_it_forward(self) -> None:
        patient = RetryPolicy.objects.create(name="patient", algorithm="constant", parameters={"base": 7200})
        assert settled(Failed("busy", retry_after=3600), retry_policy=patient).run_after == NOON + 2 * HOUR

    @pytest.mark.parametrize("seconds", [1e300, float("inf"), 2 * 86_400])
    def test_is_honoured_for_a_day_at_most(self, seconds: float) -> None:
        assert settled(Failed("busy", retry_after=seconds)).run_after == NOON + timedelta(days=1)

    @pytest.mark.parametrize("seconds", [-5, float("nan"), float("-inf")])
    def test_that_is_no_duration_is_left_out_of_account(self, seconds: float) -> None:
        assert settled(Failed("busy", retry_after=seconds)).run_after == NOON + timedelta(seconds=60)

    def test_is_honoured_by_sweeps_too(self) -> None:
        swept = RetryPolicy.objects.create(name="sweeps", algorithm="progressive")
        record = settled(Failed("busy", retry_after=3600), retry_policy=swept)
        assert (record.waiting_for, record.run_after) == (WaitingFor.BACKOFF, NOON + HOUR)
