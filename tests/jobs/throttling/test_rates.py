"""The number of records that begin per second: held by the claim, as exactly as the cap."""

from datetime import timedelta

import pytest
from django.db import IntegrityError
from hypothesis import given
from hypothesis import strategies as st

from jobs import claiming, settling, throttles
from jobs.models import BacklogRecord, Throttle
from jobs.outcomes import Released, Succeeded
from operations.throttles import live
from tests.factories import NOON, claim_ready, make_lane, make_record, make_throttle, make_worker
from tests.jobs.throttling.rated import Bucket, make_rated, put, ready, tokens_of

SECOND = timedelta(seconds=1)


@pytest.mark.django_db
class TestRate:
    @pytest.mark.parametrize(("rate", "size"), [(7, 7), (0.25, 1)])
    def test_without_a_burst_lets_a_second_of_it_begin_at_once_and_at_least_one(self, rate, size):
        ready(make_rated(rate), 20)
        assert len(claim_ready(now=NOON + 3600 * SECOND)) == size

    def test_is_not_given_back_what_was_released_unbegun(self):
        throttle = make_rated(1, tokens=1)
        ready(throttle)
        [record] = claim_ready()
        settling.settle([(record, Released("no place"))], now=NOON)
        assert claim_ready() == []
        assert len(claim_ready(now=NOON + SECOND)) == 1

    @pytest.mark.parametrize("rate", [float("nan"), float("inf"), 1_000_001.0])
    def test_that_is_no_number_is_refused_by_the_database(self, rate):
        with pytest.raises(IntegrityError, match="the rate of a throttle is a number up to 1000000, not"):
            make_rated(rate)

    def test_begins_with_a_full_bucket_and_never_owes_tokens(self):
        throttle = Throttle.objects.create(name="new", max_in_flight=9, rate=5, burst=3)
        assert tokens_of(throttle) == 3
        with pytest.raises(IntegrityError, match="tokens_are_not_owed"):
            put(throttle, -0.5)


@pytest.mark.django_db
class TestTwoThrottlesOfOneLane:
    def test_both_have_to_have_a_token_and_both_are_paid(self):
        slow, quick, plain = make_rated(1, tokens=1), make_rated(1, burst=9, tokens=5), make_throttle(50)
        lane = make_lane(slow, quick, plain)
        for _ in range(9):
            make_record(lane=lane)
        assert len(claim_ready()) == 1
        assert (tokens_of(slow), tokens_of(quick), tokens_of(plain)) == (0, 4, 0)
        assert claim_ready() == []
        assert tokens_of(quick) == 4  # what the other one holds back costs it nothing

    def test_the_tokens_of_a_shared_one_go_to_the_first_in_order(self):
        shared = make_rated(1, burst=9, tokens=2)
        one, two = make_lane(shared), make_lane(shared, make_throttle(9))
        first, last = make_record(lane=two, priority=5), make_record(lane=one, priority=1)
        second = make_record(lane=one, priority=4)
        assert [record.id for record in claim_ready()] == [first.pk, second.pk]
        assert [record.id for record in claim_ready(now=NOON + SECOND)] == [last.pk]


@pytest.mark.django_db
class TestPaused:
    def test_what_runs_goes_on_and_ends(self):
        throttle = make_throttle(2)
        ready(throttle, 4)
        ready(throttle, 3, queue="availability")
        running = claim_ready()
        Throttle.objects.update(max_in_flight=0)
        assert claim_ready() == claim_ready(queue="availability") == []
        assert len(settling.settle([(record, Succeeded()) for record in running], now=NOON).written) == 2
        assert claim_ready() == []
        Throttle.objects.update(max_in_flight=1)
        assert len(claim_ready()) == 1


@pytest.mark.django_db
class TestAQueueThatFeedsAnother:
    def test_asks_as_many_as_there_will_be_tokens_for_in_half_a_minute_less_what_has_answered(self):
        throttle = make_rated(0.1, tokens=1)
        ready(throttle, 9, queue="availability")
        ready(throttle, 1, queue="backups")
        assert len(claim_ready(queue="availability")) == 1 + 3 - 1
        assert tokens_of(throttle) == 1  # to ask costs none

    def test_asks_no_source_whose_answer_would_be_old_before_its_token_comes(self):
        ready(make_rated(0.01), queue="availability")
        assert claim_ready(queue="availability") == []
        assert claim_ready(now=NOON + 69 * SECOND, queue="availability") == []
        assert len(claim_ready(now=NOON + 70.1 * SECOND, queue="availability")) == 1


@pytest.mark.django_db
class TestAClockThatIsSetBack:
    def test_and_forward_again_grants_a_bucket_at_most(self):
        ready(make_rated(1, burst=5, tokens=5), 20)
        assert len(claim_ready()) == 5
        assert claim_ready(now=NOON - 3600 * SECOND) == []
        assert len(claim_ready()) == 5
        assert claim_ready() == []


STEPS = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 30), st.floats(-30, 0), st.sampled_from([0, 0, 0.1, 1, 3600])),
        st.integers(1, 12),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.django_db(transaction=True)
@given(
    rate=st.floats(0.01, 50),
    burst=st.none() | st.integers(1, 20),
    tokens=st.floats(0, 1),
    most=st.integers(0, 15),
    steps=STEPS,
)
def test_any_claims_at_any_instants_take_what_a_model_of_the_bucket_gives(rate, burst, tokens, most, steps):
    """The clock may go back and forth."""
    BacklogRecord.objects.all().delete()
    throttles._named.clear()
    throttle = make_rated(rate, burst, tokens=tokens, most=most)
    ready(throttle, 40)
    worker, bucket, at = make_worker(), Bucket(rate, burst, tokens, NOON), NOON
    running, left = [], 40
    for seconds, limit, settles in steps:
        at += timedelta(seconds=seconds)
        expected = bucket.take(min(limit, left), most - len(running), at)
        claimed = claiming.claim("default", worker_id=worker.pk, limit=limit, now=at)
        assert len(claimed) == expected
        running, left = running + claimed, left - len(claimed)
        if settles and running:
            settling.settle([(record, Succeeded()) for record in running], now=at)
            running = []
    [found] = live([throttle.pk], at)
    assert found.tokens == pytest.approx(bucket.held(at), abs=1e-6)
    assert (found.in_flight, found.ready) == (len(running), left)
