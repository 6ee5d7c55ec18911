"""How long a record waits after its k-th failure, and when it gives up."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.retries import ALGORITHMS, LARGEST, LONGEST, SHORTEST, Failure, Rule, delay, fibonacci_number

DAY = 86_400
FOREVER = float("inf")
NAMES = sorted(ALGORITHMS)
DELAYING = [name for name in NAMES if not ALGORITHMS[name].waits_for_sweeps]
STEADY = ["constant", "exponential", "fibonacci", "phased"]
"""Without chance: no wait is shorter than the one before."""

counts = st.integers(1, 10**9)
numbers = st.floats(SHORTEST, LONGEST)
caps = st.integers(1, LARGEST)
seeds = st.integers(0, 2**32)


def parameters_of(name: str, value: Any) -> dict[str, Any]:
    """All its numbers set to `value`."""
    algorithm = ALGORITHMS[name]
    return {key: value for key in algorithm.defaults if key not in algorithm.choices}


class TestFormulas:
    def test_constant_waits_the_same_each_time(self):
        assert [delay(Rule("constant"), k) for k in (1, 2, 50)] == [300, 300, 300]

    def test_exponential_starts_at_its_least_wait_plus_one_unit_and_doubles_the_unit(self):
        assert [delay(Rule("exponential"), k) for k in (1, 2, 3, 4)] == [240, 300, 420, 660]

    def test_fibonacci_waits_one_one_two_three_five_eight_units(self):
        assert [delay(Rule("fibonacci"), k) for k in range(1, 7)] == [60, 60, 120, 180, 300, 480]

    def test_parameters_replace_the_defaults_one_by_one(self):
        assert delay(Rule("exponential", {"unit": 1}), 3) == 184
        assert delay(Rule("fibonacci", {"unit": 0.5}), 6) == 4
        assert delay(Rule("constant", {"base": 7}), 1) == 7

    @given(k=st.integers(3, 89))
    def test_each_fibonacci_number_is_the_sum_of_the_two_before(self, k):
        assert fibonacci_number(k) == fibonacci_number(k - 1) + fibonacci_number(k - 2)

    def test_no_failure_has_the_fibonacci_number_zero(self):
        assert [fibonacci_number(k) for k in (-1, 0, 1, 2)] == [0, 0, 1, 1]


class TestChance:
    """Where a wait is random, its range is the published one; the same seed gives the same wait."""

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

    @given(k=counts, unit=numbers, cap=caps, seed=seeds)
    def test_full_jitter_draws_from_nothing_to_the_wait_without_jitter(self, k, unit, cap, seed):
        plain = delay(Rule("exponential", {"unit": unit}, cap), k)
        wait = delay(Rule("exponential", {"unit": unit, "jitter": "full"}, cap), k, random.Random(seed))
        assert 0 <= wait <= plain
        assert wait == random.Random(seed).uniform(0, plain)

    @given(k=counts, unit=numbers, cap=caps, seed=seeds)
    def test_equal_jitter_draws_from_the_upper_half(self, k, unit, cap, seed):
        plain = delay(Rule("exponential", {"unit": unit}, cap), k)
        wait = delay(Rule("exponential", {"unit": unit, "jitter": "equal"}, cap), k, random.Random(seed))
        assert plain / 2 <= wait <= plain

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

    @pytest.mark.parametrize("jitter", ["full", "equal"])
    def test_what_has_reached_the_cap_stays_spread(self, jitter):
        rng = random.Random(1)
        waits = [delay(Rule("exponential", {"jitter": jitter}, 1000), 50, rng) for _ in range(100)]
        assert max(waits) - min(waits) > 400

    @given(name=st.sampled_from(DELAYING), k=counts, seed=seeds)
    def test_equal_dice_give_equal_waits(self, name, k, seed):
        rule, failure = Rule(name, max_delay=FOREVER), Failure(k, at=1e9, first_at=1e9 - k, record_id=seed)
        assert delay(rule, failure, random.Random(seed)) == delay(rule, failure, random.Random(seed))

    @given(name=st.sampled_from(STEADY), k=counts)
    def test_without_chance_no_dice_are_thrown(self, name, k):
        class NoDice:
            def uniform(self, a: float, b: float, /) -> float:
                raise AssertionError

        delay(Rule(name), k, NoDice())


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

    def test_an_unknown_algorithm_is_named(self):
        with pytest.raises(KeyError, match="linear"):
            delay(Rule("linear"), 1)

    @given(name=st.sampled_from(DELAYING), k=st.integers(1, 400), ahead=st.floats(0.001, 1e9))
    def test_a_first_failure_in_the_future_is_one_of_now(self, name, k, ahead):
        wrong = Failure(k, at=1e9, first_at=1e9 + ahead, record_id=7)
        right = Failure(k, at=1e9, first_at=1e9, record_id=7)
        assert wrong.failing_for == 0
        assert delay(Rule(name), wrong, random.Random(1)) == delay(Rule(name), right, random.Random(1))

    def test_the_age_of_a_record_is_never_negative(self):
        assert Failure(1, at=100, inserted_at=200).of_a_record_from == 100
        assert Failure(1, at=100, first_at=50).of_a_record_from == 50
        assert Failure(1, at=100, first_at=50, inserted_at=20).of_a_record_from == 20
        assert Failure(1, at=100).of_a_record_from == 100


class TestGivingUp:
    @pytest.mark.parametrize(("failures", "given_up"), [(2, False), (3, True), (4, True)])
    def test_comes_at_the_last_allowed_failure(self, failures, given_up):
        assert Rule(max_failures=3).gives_up(Failure(failures)) is given_up

    @pytest.mark.parametrize(("seconds", "given_up"), [(DAY - 1, False), (DAY, True), (DAY + 1, True)])
    def test_comes_at_a_failure_that_is_old_enough(self, seconds, given_up):
        assert Rule(give_up_after=DAY).gives_up(Failure(1, at=1e9, first_at=1e9 - seconds)) is given_up

    @pytest.mark.parametrize("first_at", [None, 2e9], ids=["unknown", "in the future"])
    def test_by_age_does_not_come_when_the_first_failure_is_not_known(self, first_at):
        assert not Rule(give_up_after=1).gives_up(Failure(9, at=1e9, first_at=first_at))

    @pytest.mark.parametrize("name", DELAYING)
    def test_never_comes_without_a_limit(self, name):
        assert not Rule(name).gives_up(Failure(10**9, at=4e9, first_at=0, inserted_at=0))

    @pytest.mark.parametrize(("days", "given_up"), [(351, False), (361, True)])
    def test_of_progressive_comes_when_no_sweep_covers_the_record_any_more(self, days, given_up):
        assert Rule("progressive").gives_up(Failure(1, at=400 * DAY, inserted_at=(400 - days) * DAY)) is given_up

    def test_of_progressive_looks_at_the_age_of_the_record_and_not_at_its_first_failure(self):
        new = Failure(50, at=1000 * DAY, first_at=0, inserted_at=1000 * DAY - 60)
        assert not Rule("progressive").gives_up(new)
        assert Rule("progressive", give_up_after=DAY).gives_up(new)
