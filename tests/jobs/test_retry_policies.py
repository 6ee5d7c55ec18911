"""Valid retry policies, their rows, those that an installation comes with, and where they are chosen."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import ProtectedError
from hypothesis import assume, given
from hypothesis import strategies as st

from declarations.problems import validated
from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS, LARGEST, LONGEST, SHORTEST, Failure, Rule, delay, validate
from jobs.states import Status
from operations import declarations as queue
from tests.factories import make_record, make_retry_policy, make_schedule
from tests.jobs.backoffs import parameters_of

DAY = 86_400
NAMES = sorted(ALGORITHMS)


def problems_of(rule: Rule) -> dict[str, list[str]]:
    """The fields that `validate` names, with what it says."""
    with pytest.raises(ValidationError) as caught:
        validate(rule)
    return caught.value.message_dict


NO_NUMBERS = [0, -1, 0.0, -0.5, "60", None, True, float("nan"), float("inf"), 10**400, 10**5000, [60], {}, 1e-9]


class TestValidation:
    @pytest.mark.parametrize(
        ("rule", "field", "message"),
        [
            (Rule("linear"), "algorithm", f"unknown algorithm 'linear'; one of {', '.join(NAMES)}"),
            *((Rule(wrong), "algorithm", "unknown algorithm") for wrong in (None, "", [], {}, 7)),
            (
                Rule("exponential", {"base": 3}),
                "parameters",
                "exponential has no parameter 'base'; it takes least, unit, jitter",
            ),
            *(
                (Rule("exponential", {"jitter": wrong}), "parameters", f"jitter is none, full or equal, not {shown}")
                for wrong, shown in (("half", "'half'"), (1, "1"), ([], "[]"), (None, "None"), (10**5000, "a number"))
            ),
            *(
                (Rule("fibonacci", wrong), "parameters", 'must be an object, such as {"unit": 60}')
                for wrong in (None, [], "unit", 60)
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_wrong_is_named_beside_what_there_is(self, rule, field, message):
        problems = problems_of(rule)
        assert list(problems) == [field]
        assert problems[field][0].startswith(message)

    @pytest.mark.parametrize(
        ("name", "key"), [(n, key) for n in NAMES for key in parameters_of(n, 0)], ids=lambda value: value
    )
    def test_a_parameter_that_is_no_positive_number_of_seconds_is_named_with_its_value(self, name, key):
        for value in NO_NUMBERS:
            problems = problems_of(Rule(name, {key: value}))
            assert list(problems) == ["parameters"]
            beginning = f"{key} must be a positive number of seconds, 0.001 to 1000000000, not"
            assert problems["parameters"][0].startswith(beginning)
            assert len(problems["parameters"][0]) < 150

    def test_everything_that_is_wrong_is_named_at_once(self):
        problems = problems_of(Rule("exponential", {"unit": 0, "least": "x", "base": 1, "jitter": "y"}, 0, 0, -1))
        assert sorted(problems) == ["give_up_after", "max_delay", "max_failures", "parameters"]
        assert [problem.split()[0] for problem in problems["parameters"]] == ["unit", "least", "exponential", "jitter"]

    def test_a_count_of_failures_does_not_go_with_sweeps(self):
        problems = problems_of(Rule("progressive", max_failures=3))
        assert list(problems) == ["max_failures"]
        assert "leave it empty" in problems["max_failures"][0]
        validate(Rule("progressive", give_up_after=DAY))

    @pytest.mark.parametrize("value", [0, -1, LARGEST + 1, float("nan"), float("inf"), "9", True])
    @pytest.mark.parametrize("field", ["max_delay", "max_failures", "give_up_after"])
    def test_a_limit_out_of_bounds_is_named(self, field, value):
        assert list(problems_of(Rule(**{field: value}))) == [field]

    @given(
        name=st.sampled_from(NAMES),
        value=st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.floats(SHORTEST, LONGEST)),
        failures=st.integers(1, 10**6),
        cap=st.integers(1, LARGEST),
    )
    def test_what_is_valid_has_a_delay(self, name, value, failures, cap):
        rule = Rule(name, parameters_of(name, value), cap)
        try:
            validate(rule)
        except ValidationError:
            assume(False)
        wait = delay(rule, Failure(failures, at=2e9, first_at=2e9 - DAY, record_id=failures))
        assert 0 < wait <= (3600 if name == "progressive" else cap)


def refused(**fields: Any) -> dict[str, list[str]]:
    """The fields that the check of a row names, with what it says."""
    with pytest.raises(ValidationError) as caught:
        validated(queue.RetryPolicyDeclaration, {"name": "bad", "algorithm": "fibonacci"} | fields)
    return caught.value.message_dict


class TestRow:
    @pytest.mark.parametrize("name", NAMES)
    def test_takes_the_defaults_of_any_algorithm_and_no_parameters_at_all(self, name):
        for parameters in ({}, ALGORITHMS[name].defaults):
            declared = validated(
                queue.RetryPolicyDeclaration, {"name": "x", "algorithm": name, "parameters": parameters}
            )
            validate(RetryPolicy(**dict(declared)).as_rule())

    @pytest.mark.parametrize("name", NAMES)
    def test_names_every_bad_field_of_any_algorithm(self, name):
        problems = refused(algorithm=name, parameters={"nonsense": 1}, max_delay=0, max_failures=0, give_up_after=0)
        assert sorted(problems) == ["give_up_after", "max_delay", "max_failures", "parameters"]

    @pytest.mark.parametrize("wrong", [None, [], [60], "soon", -1, 2**31, 10**400, float("nan"), {"unit": 10**400}])
    def test_names_parameters_and_a_cap_of_any_wrong_type(self, wrong):
        assert sorted(refused(parameters=wrong, max_delay=wrong)) == ["max_delay", "parameters"]


PRESETS = import_module("jobs.migrations.0002_functions_and_presets")
FIBONACCI = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765]
PUBLISHED = {
    "constant": lambda r: (300, 300),
    "exponential": lambda r: (180 + 2**r * 60,) * 2,
    "sidekiq": lambda r: (r**4 + 15, r**4 + 15 + 30 * (r + 1)),
    "buckets": lambda r: (r**3, (r + 2) ** 3),
    "fibonacci": lambda r: (FIBONACCI[r] * 60,) * 2,
}
"""Retry r, from 0: the shortest and the longest wait in seconds."""


@pytest.mark.django_db
@pytest.mark.parametrize("status", [Status.WAITING, Status.RUNNING, Status.SUCCEEDED, None])
def test_deleting_one_is_refused_while_a_record_or_a_schedule_names_it(status):
    policy = make_retry_policy()
    user = make_schedule(retry_policy=policy) if status is None else make_record(status, retry_policy=policy)
    with pytest.raises(ProtectedError):
        policy.delete()
    user.delete()
    policy.delete()


@pytest.mark.django_db
class TestPresets:
    @pytest.mark.parametrize("name", PUBLISHED)
    def test_a_published_one_waits_as_published_to_the_second_for_twenty_retries(self, name):
        rule = RetryPolicy.objects.get(name=name).as_rule()
        for r in range(20):
            assert not rule.gives_up(Failure(r + 1))
            found = tuple(delay(rule, r + 1, SimpleNamespace(uniform=end)) for end in (min, max))
            assert found == PUBLISHED[name](r)

    def test_there_is_one_of_each_algorithm_and_each_is_valid(self):
        names = [preset["name"] for preset in (*PRESETS.PUBLISHED, *PRESETS.OURS)]
        policies = RetryPolicy.objects.filter(name__in=names)
        assert sorted({policy.algorithm for policy in policies}) == NAMES
        assert policies.count() == len(names)
        for policy in policies:
            validate(policy.as_rule())

    def test_what_a_person_has_under_one_of_their_names_stays(self):
        RetryPolicy.objects.filter(name="phased").delete()
        mine = make_retry_policy(name="phased", algorithm="constant", parameters={"base": 7}, max_delay=8)
        PRESETS.install(apps, SimpleNamespace(connection=connection))
        mine.refresh_from_db()
        assert (mine.algorithm, mine.parameters, mine.max_delay) == ("constant", {"base": 7}, 8)
        assert RetryPolicy.objects.filter(name="fibonacci").exists()
