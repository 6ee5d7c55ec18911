"""The audit of what really ran: reasons that excuse, and what nothing excuses."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.states import AttemptOutcome
from proving.chaos.audit_runs import audit, highest
from proving.chaos.facts import ProcessFact, Samples, StormFacts
from tests.proving.chaos.books import CAPPED, KILLED, LIVED, UNCAPPED, books, ran, record

RESCUED, RELEASED, FAILED = AttemptOutcome.RESCUED, AttemptOutcome.RELEASED, AttemptOutcome.FAILED
AGAIN = ran(1, 57, number=2)
CUT_OFF: dict[str, Any] = {"pid": KILLED, "returned": None, "outcome": RESCUED}


def with_process(facts: StormFacts, pid: int, *fields: Any, **more: Any) -> StormFacts:
    return replace(facts, processes={**facts.processes, pid: ProcessFact(pid, 0, *fields, **more)})


def elsewhere() -> tuple[Any, Any]:
    """A run of which the history names another worker."""
    attempt, execution = ran(1, 10)
    return replace(attempt, worker_id=2), execution


def feeding(number: int) -> tuple[Any, Any]:
    attempt, execution = ran(number, 10, throttles=(CAPPED,))
    return replace(attempt, queue="ask"), replace(execution, queue="ask", outcome="Succeeded")


def left_behind() -> tuple[Any, Any]:
    attempt, execution = ran(2, 10, returned=None, outcome=RESCUED, kind="unresponsive")
    return replace(attempt, ended=16.0), execution


@pytest.mark.parametrize(
    "runs",
    [
        [ran(1, 10)],
        # its settle died with its worker, or nothing was settled at all
        [ran(1, 48, pid=KILLED, outcome=RESCUED, settled=56), AGAIN],
        [ran(1, 48, **CUT_OFF, settled=56), AGAIN],
        # a handler that cannot be stopped is left behind by a worker that ends
        [ran(1, 10, returned=None, outcome=RELEASED), left_behind()],
        # one after the other, until the kill that cut the first one off, or what only feeds
        [ran(1, 10, throttles=(CAPPED,)), ran(2, 11, throttles=(CAPPED,))],
        [ran(1, 49, **CUT_OFF, settled=60, throttles=(CAPPED,)), ran(1, 61, number=2), ran(2, 50, throttles=(CAPPED,))],
        [feeding(1), feeding(2)],
    ],
)
def test_what_has_a_reason_is_right(runs):
    assert audit(books([record(1), record(2, kind="unresponsive")], runs)).discrepancies == []


@pytest.mark.parametrize(
    ("message", "runs"),
    [
        ("handed out 2 times", [ran(1, 10), (ran(1, 10)[0], ran(1, 10)[1])]),
        ("its history has worker 2", [elsewhere()]),
        ("returned Succeeded, its history says released", [ran(1, 48, outcome=RELEASED, settled=56), AGAIN]),
        ("never ended", [ran(1, 10, returned=None, outcome=FAILED)]),
        ("before its lease was over", [ran(1, 48, **CUT_OFF, settled=51), AGAIN]),
        ("which lived", [ran(1, 48, outcome=RESCUED, returned="Failed", settled=54, seconds=6), AGAIN]),
        ("ran on for 3.00 s", [ran(1, 10, seconds=5, settled=12)]),
        (
            "2 records ran at once",
            [ran(1, 49, **CUT_OFF, settled=60, throttles=(CAPPED,)), ran(2, 49.5, throttles=(CAPPED,))],
        ),
        (
            "the exclusive key 'key'",
            [ran(1, 10, exclusive_key="key"), ran(2, 10.5, exclusive_key="key"), ran(3, 10, exclusive_key="other")],
        ),
    ],
)
def test_what_has_none_is_found(message, runs):
    found = audit(books([record(1), record(2), record(3)], runs)).discrepancies
    assert any(message in line for line in found)


@pytest.mark.parametrize(
    ("message", "more"),
    [
        ("no handler said so", {"executions": []}),
        ("not in the history", {"attempts": {}}),
        ("the database counted 2 records under throttle 1", {"samples": Samples(9, {CAPPED: 2}, frozenset())}),
        (
            "two running records under the exclusive key 'key'",
            {"samples": Samples(9, {CAPPED: 1}, frozenset({"key"}))},
        ),
    ],
)
def test_what_only_one_side_knows_is_found(message, more):
    [found] = audit(replace(books([record(1)], [ran(1, 10)]), **more)).discrepancies
    assert message in found


@pytest.mark.parametrize("how", ["ended by itself with code 1", "did not end after SIGTERM"])
def test_a_worker_must_end_as_it_was_made_to(how):
    [found] = audit(with_process(books([record(1)], [ran(1, 10)]), KILLED, 50, how)).discrepancies
    assert how in found


def test_what_is_released_over_the_head_of_a_worker_that_ends_may_still_return():
    facts = books([record(1)], [ran(1, 48, outcome=RELEASED), AGAIN])
    assert audit(with_process(facts, LIVED, 1000, "ended cleanly", asked_to_end=47)).discrepancies == []


def test_a_rescue_of_a_worker_that_stood_still_is_explained_and_counted():
    facts = books([record(1)], [ran(1, 48, outcome=RESCUED, settled=54, seconds=9), ran(1, 58, number=2)])
    findings = audit(with_process(facts, LIVED, 1000, "ended cleanly", stood=((49, 56),)))
    assert findings.discrepancies == []
    assert (findings.ran_again, findings.ran_on, findings.ran_on_seconds) == (1, 1, 3.0)


def test_under_a_throttle_the_peak_is_counted_and_what_is_above_its_cap_found():
    both = (CAPPED, UNCAPPED)
    findings = audit(books([record(1), record(2)], [ran(1, 10, throttles=both), ran(2, 10.5, throttles=both)]))
    assert findings.peaks == {CAPPED: 2, UNCAPPED: 2}
    assert ["under throttle 1" in line for line in findings.discrepancies] == [True]


def test_intervals_are_half_open_and_the_peak_says_since_when():
    assert highest([(0, 2), (2, 3), (1, 2), (5, 6)]) == (2, 1)
    assert highest([]) == (0, 0.0)
