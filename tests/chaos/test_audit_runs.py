"""The audit of what really ran: reasons that excuse, and what nothing excuses."""

from dataclasses import replace

import pytest

from chaos.audit_runs import audit, highest
from chaos.facts import Facts, ProcessFact, Samples
from jobs.states import AttemptOutcome
from tests.chaos.books import CAPPED, KILLED, LIVED, UNCAPPED, books, ran, record

RESCUED, SUCCEEDED, RELEASED = AttemptOutcome.RESCUED, AttemptOutcome.SUCCEEDED, AttemptOutcome.RELEASED


def only(facts: Facts) -> str:
    [found] = audit(facts).discrepancies
    return found


def standing_still(facts: Facts, since: float, until: float) -> Facts:
    stood = ProcessFact(LIVED, 0, 1000, "ended cleanly", stood=((since, until),))
    return replace(facts, processes={**facts.processes, LIVED: stood})


@pytest.mark.parametrize("how", ["ended by itself with code 1", "did not end after SIGTERM"])
def test_a_worker_must_end_as_it_was_told(how):
    facts = books([record(1)], [ran(1, 10)])
    ended = ProcessFact(KILLED, 0, 50, how)
    assert how in only(replace(facts, processes={**facts.processes, KILLED: ended}))


class TestHandedOut:
    def test_once_is_right(self):
        assert audit(books([record(1)], [ran(1, 10)])).discrepancies == []

    def test_twice_is_not(self):
        facts = books([record(1)], [ran(1, 10)])
        facts.executions.extend(facts.executions)
        assert "handed out 2 times" in only(facts)

    def test_without_a_history_is_not(self):
        assert "not in the history" in only(replace(books([record(1)], [ran(1, 10)]), attempts={}))

    def test_to_another_worker_than_the_history_says_is_not(self):
        attempt, execution = ran(1, 10)
        assert "its history has worker 2" in only(books([record(1)], [(replace(attempt, worker_id=2), execution)]))


class TestResults:
    def test_a_success_that_nobody_ran(self):
        assert "no handler said so" in only(replace(books([record(1)], [ran(1, 10)]), executions=[]))

    def test_a_success_whose_settle_died_with_its_worker_ran_again(self):
        runs = [ran(1, 48, pid=KILLED, outcome=RESCUED, settled=56), ran(1, 57, number=2)]
        findings = audit(books([record(1)], runs))
        assert (findings.discrepancies, findings.ran_again) == ([], 1)

    def test_a_success_whose_worker_lived_must_not_be_lost(self):
        runs = [ran(1, 48, outcome=RELEASED, settled=56), ran(1, 57, number=2)]
        assert "returned Succeeded, its history says released" in only(books([record(1)], runs))

    def test_what_is_released_over_the_head_of_a_worker_that_ends_may_still_return(self):
        facts = books([record(1)], [ran(1, 48, outcome=RELEASED), ran(1, 57, number=2)])
        ending = ProcessFact(LIVED, 0, 1000, "ended cleanly", asked_to_end=47)
        assert audit(replace(facts, processes={**facts.processes, LIVED: ending})).discrepancies == []

    def test_a_handler_that_never_ended_in_a_worker_that_did(self):
        facts = books([record(1)], [ran(1, 10, returned=None, outcome=AttemptOutcome.FAILED)])
        assert "never ended" in only(facts)

    def test_a_handler_that_listens_to_nobody_is_left_behind_by_a_worker_that_ends(self):
        runs = [
            ran(1, 10, returned=None, outcome=RELEASED),
            ran(2, 10, returned=None, outcome=RESCUED, kind="unresponsive"),
        ]
        runs[1] = (replace(runs[1][0], ended=16.0), runs[1][1])
        facts = books([record(1), record(2, kind="unresponsive")], runs)
        assert audit(facts).discrepancies == []


class TestRescues:
    def test_of_a_worker_that_was_killed_need_no_other_reason(self):
        runs = [ran(1, 48, pid=KILLED, returned=None, outcome=RESCUED, settled=56), ran(1, 57, number=2)]
        assert audit(books([record(1)], runs)).discrepancies == []

    def test_of_a_worker_that_stood_still_are_explained(self):
        runs = [ran(1, 48, outcome=RESCUED, settled=54, seconds=9), ran(1, 58, number=2)]
        facts = standing_still(books([record(1)], runs), 49, 56)
        findings = audit(facts)
        assert findings.discrepancies == []
        assert (findings.ran_on, findings.ran_on_seconds) == (1, 3.0)

    def test_of_a_worker_that_lived_are_not(self):
        runs = [ran(1, 48, outcome=RESCUED, returned="Failed", settled=54, seconds=6), ran(1, 57, number=2)]
        found = audit(books([record(1)], runs)).discrepancies
        assert any("which lived" in line for line in found)

    def test_before_the_lease_was_over_are_not_even_of_a_dead_worker(self):
        runs = [ran(1, 48, pid=KILLED, returned=None, outcome=RESCUED, settled=51), ran(1, 57, number=2)]
        assert "before its lease was over" in only(books([record(1)], runs))

    def test_a_handler_that_ran_on_in_a_worker_that_lived_has_no_reason(self):
        facts = books([record(1)], [ran(1, 10, seconds=5, settled=12)])
        assert "ran on for 3.00 s" in only(facts)


class TestTooMuchAtOnce:
    def test_under_a_throttle(self):
        runs = [ran(1, 10, throttles=(CAPPED, UNCAPPED)), ran(2, 10.5, throttles=(CAPPED, UNCAPPED))]
        findings = audit(books([record(1), record(2)], runs))
        assert findings.peaks == {CAPPED: 2, UNCAPPED: 2}
        assert ["under throttle 1" in line for line in findings.discrepancies] == [True]

    def test_one_after_the_other_is_right(self):
        runs = [ran(1, 10, throttles=(CAPPED,)), ran(2, 11, throttles=(CAPPED,))]
        assert audit(books([record(1), record(2)], runs)).discrepancies == []

    def test_what_only_feeds_is_not_counted(self):
        runs = [ran(number, 10, throttles=(CAPPED,)) for number in (1, 2)]
        asks = [
            (replace(attempt, queue="ask"), replace(execution, queue="ask", outcome="Succeeded"))
            for attempt, execution in runs
        ]
        assert audit(books([record(1), record(2)], asks)).discrepancies == []

    def test_what_a_kill_cut_off_counts_until_the_kill(self):
        cut = ran(1, 49, pid=KILLED, returned=None, outcome=RESCUED, settled=60, throttles=(CAPPED,))
        again = ran(1, 61, number=2)
        during, after = ran(2, 49.5, throttles=(CAPPED,)), ran(2, 50, throttles=(CAPPED,))
        assert "2 records ran at once" in only(books([record(1), record(2)], [cut, again, during]))
        assert audit(books([record(1), record(2)], [cut, again, after])).discrepancies == []

    def test_under_an_exclusive_key(self):
        runs = [ran(1, 10, exclusive_key="key"), ran(2, 10.5, exclusive_key="key"), ran(3, 10, exclusive_key="other")]
        assert "the exclusive key 'key'" in only(books([record(1), record(2), record(3)], runs))

    @pytest.mark.parametrize(
        ("samples", "said"),
        [
            (Samples(9, {CAPPED: 2}, frozenset()), "the database counted 2 records under throttle 1"),
            (Samples(9, {CAPPED: 1}, frozenset({"key"})), "two running records under the exclusive key 'key'"),
        ],
    )
    def test_in_the_database_alone(self, samples, said):
        assert said in only(books([record(1)], [ran(1, 10)], samples=samples))


def test_intervals_are_half_open_and_the_peak_says_since_when():
    assert highest([(0, 2), (2, 3), (1, 2), (5, 6)]) == (2, 1)
    assert highest([]) == (0, 0.0)
