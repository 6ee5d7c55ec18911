"""The wait of a record after its k-th failure, and when it gives up."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.retries import ALGORITHMS, LARGEST, LONGEST, SHORTEST, Failure, Rule, delay
from tests.jobs.backoffs import parameters_of

DAY = 86_400
FOREVER = float("inf")
NAMES = sorted(ALGORITHMS)
DELAYING = [name for name in NAMES if not ALGORITHMS[name].waits_for_sweeps]
STEADY = ["constant", "exponential", "fibonacci", "phased"]
"""Algorithms without chance: no wait is shorter than the one before."""

counts = st.integers(1, 10**9)
numbers = st.floats(SHORTEST, LONGEST)
caps = st.integers(1, LARGEST)
seeds = st.integers(0, 2**32)


@pytest.mark.parametrize(
    ("rule", "waits"),
    [
        (Rule("constant"), [300, 300, 300]),
        (Rule("constant", {"base": 7}), [7, 7]),
        (Rule("exponential"), [240, 300, 420, 660]),
        (Rule("exponential", {"unit": 1}), [181, 182, 184]),
        (Rule("fibonacci"), [60, 60, 120, 180, 300, 480]),
        (Rule("fibonacci", {"unit": 0.5}), [0.5, 0.5, 1, 1.5, 2.5, 4]),
    ],
)
def test_a_wait_without_chance_is_that_of_its_formula(rule, waits):
    assert [delay(rule, k) for k in range(1, len(waits) + 1)] == waits


class TestChance:
    """The range of a random wait is the published one; the same seed gives the same wait."""

    @given(k=st.integers(1, 10**6), unit=numbers, seed=seeds)
    def test_sidekiq_draws_up_to_thirty_units_more_for_each_failure(self, k, unit, seed):
        r = k - 1
        wait = delay(Rule("sidekiq", {"unit": unit}, FOREVER), k, random.Random(seed))
        assert (r**4 + 15) * unit * (1 - 1e-12) <= wait <= (r**4 + 15 + 30 * (r + 1)) * unit * (1 + 1e-12)

    @given(k=st.integers(1, 10**6), unit=numbers, seed=seeds)
    def test_buckets_draws_within_a_bucket_that_overlaps_the_next_one(self, k, unit, seed):
        r = k - 1
        wait = delay(Rule("buckets", {"unit": unit}, FOREVER), k, random.Random(seed))
        assert r**3 * unit * (1 - 1e-12) <= wait <= (r + 2) ** 3 * unit * (1 + 1e-12)

    @given(k=counts, unit=numbers, cap=caps, seed=seeds, jitter=st.sampled_from(["full", "equal"]))
    def test_jitter_draws_from_nothing_or_the_half_up_to_the_wait_without_it(self, k, unit, cap, seed, jitter):
        plain = delay(Rule("exponential", {"unit": unit}, cap), k)
        least = 0 if jitter == "full" else plain / 2
        wait = delay(Rule("exponential", {"unit": unit, "jitter": jitter}, cap), k, random.Random(seed))
        assert least <= wait <= plain
        assert wait == pytest.approx(random.Random(seed).uniform(least, plain))

    @pytest.mark.parametrize(
        ("name", "parameters", "mean"),
        [
            ("buckets", {}, 5**3 + 3 * 5),
            ("sidekiq", {}, 4**4 + 15 + 30 * 5 / 2),
            ("exponential", {"jitter": "full"}, (180 + 16 * 60) / 2),
            ("exponential", {"jitter": "equal"}, (180 + 16 * 60) * 3 / 4),
        ],
    )
    def test_the_mean_of_many_draws_is_that_of_the_formula(self, name, parameters, mean):
        rng = random.Random(5)
        waits = [delay(Rule(name, parameters), 5, rng) for _ in range(4000)]
        assert sum(waits) / len(waits) == pytest.approx(mean, rel=0.03)


class TestBounds:
    @given(name=st.sampled_from(STEADY), k=counts, unit=numbers, cap=caps)
    def test_without_chance_no_wait_is_shorter_than_the_one_before(self, name, k, unit, cap):
        rule = Rule(name, parameters_of(name, unit), cap)
        assert 0 < delay(rule, k) <= delay(rule, k + 1) <= cap

    @given(name=st.sampled_from(DELAYING), k=counts, unit=numbers, cap=caps, seed=seeds)
    def test_the_cap_holds_for_any_parameters_also_below_the_base(self, name, k, unit, cap, seed):
        rule = Rule(name, parameters_of(name, unit), max_delay=cap)
        assert 0 <= delay(rule, k, random.Random(seed)) <= cap

    @given(name=st.sampled_from([name for name in DELAYING if name != "constant"]), cap=caps)
    def test_every_growing_wait_reaches_the_cap_even_with_the_smallest_unit(self, name, cap):
        rule = Rule(name, parameters_of(name, SHORTEST), max_delay=cap)
        assert delay(rule, 10**6, random.Random(1)) == pytest.approx(cap)

    @pytest.mark.parametrize("name", NAMES)
    def test_a_huge_number_of_failures_costs_no_time(self, name):
        for k in (10_000, 10**9, 10**100, 10**400):  # who counted up to it would not come to an end
            failures = (Failure(k), Failure(k, at=2e9, first_at=2e9 - DAY), Failure(k, at=2e9, first_at=2e9))
            for failure in failures:
                assert 0 < delay(Rule(name, max_delay=LARGEST), failure) <= LARGEST

    @pytest.mark.parametrize("failures", [0, -1])
    def test_a_delay_without_a_failure_is_a_mistake_of_the_caller(self, failures):
        for name in NAMES:
            with pytest.raises(ValueError, match=f"failures={failures}"):
                delay(Rule(name), failures)

    @given(name=st.sampled_from(DELAYING), k=st.integers(1, 400), ahead=st.floats(0.001, 1e9))
    def test_a_first_failure_in_the_future_is_one_of_now(self, name, k, ahead):
        wrong = Failure(k, at=1e9, first_at=1e9 + ahead, record_id=7)
        right = Failure(k, at=1e9, first_at=1e9, record_id=7)
        assert wrong.failing_for == 0
        assert delay(Rule(name), wrong, random.Random(1)) == delay(Rule(name), right, random.Random(1))


NEW = Failure(50, at=1000 * DAY, first_at=0, inserted_at=1000 * DAY - 60)
"""A record that is a minute old, of an assignment that has failed for years."""


@pytest.mark.parametrize(
    ("rule", "failure", "given_up"),
    [
        (Rule(max_failures=3), Failure(2), False),
        (Rule(max_failures=3), Failure(3), True),
        (Rule(give_up_after=DAY), Failure(1, at=1e9, first_at=1e9 - DAY + 1), False),
        (Rule(give_up_after=DAY), Failure(1, at=1e9, first_at=1e9 - DAY), True),
        (Rule(give_up_after=1), Failure(9, at=1e9), False),
        (Rule(give_up_after=1), Failure(9, at=1e9, first_at=2e9), False),
        *((Rule(name), Failure(10**9, at=4e9, first_at=0, inserted_at=0), False) for name in DELAYING),
        (Rule("progressive"), Failure(1, at=400 * DAY, inserted_at=49 * DAY), False),
        (Rule("progressive"), Failure(1, at=400 * DAY, inserted_at=39 * DAY), True),
        (Rule("progressive"), NEW, False),
        (Rule("progressive", give_up_after=DAY), NEW, True),
    ],
)
def test_giving_up_comes_at_the_limit_and_never_without_one(rule, failure, given_up):
    assert rule.gives_up(failure) is given_up
