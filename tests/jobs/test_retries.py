"""How long a record waits after its k-th failure."""

import time

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from jobs.retries import ALGORITHMS, Rule, delay, fibonacci_number, validate
from tests.factories import make_retry_policy

FOREVER = 1e18


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
        assert fibonacci_number(0) == 0

    @given(name=st.sampled_from(sorted(ALGORITHMS)), k=st.integers(1, 10**9))
    def test_no_wait_is_shorter_than_the_one_before_nor_longer_than_the_cap(self, name, k):
        rule = Rule(name, max_delay=86_400)
        assert 0 < delay(rule, k) <= delay(rule, k + 1) <= 86_400

    @given(name=st.sampled_from(sorted(ALGORITHMS)), unit=st.floats(1e-3, 1e6), cap=st.floats(1, 1e9))
    def test_the_cap_holds_for_any_parameters(self, name, unit, cap):
        parameters = dict.fromkeys(ALGORITHMS[name].defaults, unit)
        assert 0 < delay(Rule(name, parameters, max_delay=cap), 10**6) <= cap

    @pytest.mark.parametrize("name", sorted(ALGORITHMS))
    def test_a_huge_number_of_failures_costs_no_time(self, name):
        began = time.process_time()
        for k in (10**6, 10**9, 10**100):
            assert delay(Rule(name, max_delay=FOREVER), k) <= FOREVER
        assert time.process_time() - began < 0.5

    @pytest.mark.parametrize("failures", [0, -1])
    def test_a_delay_without_a_failure_is_a_mistake_of_the_caller(self, failures):
        with pytest.raises(ValueError, match=f"failures={failures}"):
            delay(Rule(), failures)

    def test_an_unknown_algorithm_is_named(self):
        with pytest.raises(KeyError, match="phased"):
            delay(Rule("phased"), 1)


class TestGivingUp:
    @pytest.mark.parametrize(("failures", "given_up"), [(2, False), (3, True), (4, True)])
    def test_comes_at_the_last_allowed_failure(self, failures, given_up):
        assert Rule(max_failures=3).gives_up(failures) is given_up

    def test_never_comes_without_a_limit(self):
        assert not Rule().gives_up(10**9)


class TestValidation:
    @pytest.mark.parametrize("name", sorted(ALGORITHMS))
    def test_the_defaults_are_valid(self, name):
        validate(name, {})
        validate(name, ALGORITHMS[name].defaults)

    def test_an_unknown_algorithm_is_named_beside_those_there_are(self):
        with pytest.raises(ValidationError, match="'linear'; one of constant, exponential, fibonacci") as caught:
            validate("linear", {})
        assert list(caught.value.message_dict) == ["algorithm"]

    def test_an_unknown_parameter_is_named_beside_those_it_takes(self):
        with pytest.raises(ValidationError, match="no parameter 'base'; it takes least, unit") as caught:
            validate("exponential", {"base": 3})
        assert list(caught.value.message_dict) == ["parameters"]

    @pytest.mark.parametrize(
        "value",
        [0, -1, "60", None, True, float("nan"), float("inf"), 10**400, [60]],
        ids=lambda value: repr(value)[:20],
    )
    def test_a_parameter_that_is_no_positive_number_of_seconds_is_named_with_its_value(self, value):
        with pytest.raises(ValidationError, match="unit must be a positive number of seconds") as caught:
            validate("fibonacci", {"unit": value})
        assert list(caught.value.message_dict) == ["parameters"]

    @pytest.mark.parametrize("parameters", [None, [], "unit", 60])
    def test_parameters_that_are_no_object_are_refused(self, parameters):
        with pytest.raises(ValidationError, match="must be an object"):
            validate("fibonacci", parameters)

    @given(
        name=st.sampled_from(sorted(ALGORITHMS)),
        value=st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none()),
        failures=st.integers(1, 10**6),
    )
    def test_what_is_valid_has_a_delay(self, name, value, failures):
        parameters = dict.fromkeys(ALGORITHMS[name].defaults, value)
        try:
            validate(name, parameters)
        except ValidationError:
            return
        assert 0 < delay(Rule(name, parameters), failures) <= 86_400


@pytest.mark.django_db
class TestRow:
    def test_a_retry_policy_is_its_rule(self):
        policy = make_retry_policy(algorithm="fibonacci", parameters={"unit": 5}, max_delay=99, max_failures=4)
        policy.full_clean()
        assert policy.as_rule() == Rule("fibonacci", {"unit": 5}, 99.0, 4)

    def test_a_bad_one_is_refused_by_its_form_with_the_field(self):
        policy = make_retry_policy(parameters={"unit": 5})
        with pytest.raises(ValidationError) as caught:
            policy.full_clean()
        assert list(caught.value.message_dict) == ["parameters"]
