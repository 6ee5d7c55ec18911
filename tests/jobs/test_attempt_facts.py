"""Facts of a handler are kept with its attempt, whatever way it is settled; and so is its wish for a later retry."""

from datetime import timedelta

import pytest

from external.formatting import some_of
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord, RetryPolicy
from jobs.outcomes import Failed, Outcome, Succeeded
from jobs.prepared_statements import LARGEST_FACTS, facts_as_json
from jobs.states import WaitingFor
from tests.factories import NOON, make_record, settled

pytestmark = pytest.mark.django_db


def ended(outcome: Outcome, **facts: object) -> BacklogRecord:
    make_record(**facts)
    return settled(outcome)


class TestFacts:
    def test_are_kept_of_a_plain_success_of_one_with_a_hook_and_of_a_failure(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(registry, "kinds", {"hooked": Kind("hooked", after_settle=lambda *_: None)})
        ended(Succeeded())
        ended(Succeeded(facts={"status": 204}))
        ended(Succeeded(facts={"status": 200, "seconds": 0.25}), kind="hooked")
        ended(Failed("no", facts={"status": 503}))
        found = Attempt.objects.order_by("record_id").values_list("facts", flat=True)
        assert list(found) == [None, {"status": 204}, {"status": 200, "seconds": 0.25}, {"status": 503}]

    @pytest.mark.parametrize(
        "facts", [{"a": "\0\ud800"}, {"a": float("nan")}, {"a": object()}, {"a": "x" * LARGEST_FACTS}, {1: 2}]
    )
    def test_that_cannot_be_kept_as_they_are_hold_up_no_settle(self, facts: dict) -> None:
        assert ended(Succeeded(facts=facts)).finished_at
        assert len(facts_as_json(Attempt.objects.get().facts) or "") <= LARGEST_FACTS


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("algorithm", "wanted", "waits"),
        [
            ("constant", 3600, 7200),
            ("progressive", 3600, 3600),
            *((None, seconds, 86_400) for seconds in (1e300, float("inf"), 2 * 86_400)),
            *((None, seconds, 60) for seconds in (-5, float("nan"), float("-inf"))),
            (None, 3600, 3600),
        ],
    )
    def test_puts_the_next_attempt_off_by_a_day_at_most_and_never_brings_it_forward(self, algorithm, wanted, waits):
        policy = algorithm and RetryPolicy.objects.create(
            name="x", algorithm=algorithm, parameters={"base": 7200} if algorithm == "constant" else {}
        )
        record = ended(Failed("busy", retry_after=wanted), retry_policy=policy)
        assert (record.waiting_for, record.run_after) == (WaitingFor.BACKOFF, NOON + timedelta(seconds=waits))


def test_some_of_many_are_named_and_the_others_counted() -> None:
    assert some_of(["a", "b"], 2) == "a, b"
    assert some_of(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert some_of(["a b, c", "d", "e"], 1, "; ") == "a b, c; and 2 more"
