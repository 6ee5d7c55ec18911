"""The audit of the tables finds each thing that must not be, and nothing in books that balance."""

from dataclasses import replace

import pytest

from chaos.audit_tables import audit
from chaos.facts import Deeds, Facts, Pause
from jobs.states import AttemptOutcome, Status
from tests.chaos.books import KILLED, books, ran, record

FAILED, RESCUED, SUCCEEDED = AttemptOutcome.FAILED, AttemptOutcome.RESCUED, AttemptOutcome.SUCCEEDED


def only(facts: Facts) -> str:
    [found] = audit(facts)
    return found


def test_books_that_balance_have_no_discrepancy():
    records = [
        record(1),
        record(2, attempt=2, failures=1),
        record(3, status=Status.FAILED, failures=2, attempt=2, max_failures=2),
        record(4, status=Status.CANCELLED, attempt=0),
        record(5, kind="booked"),
    ]
    runs = [
        ran(1, 10),
        ran(2, 10, outcome=RESCUED, settled=60),
        ran(2, 60, number=2),
        ran(3, 10, outcome=FAILED),
        ran(3, 20, number=2, outcome=FAILED),
        ran(5, 10),
    ]
    facts = books(records, runs, bookings=[(5, 1)])
    facts.deeds.cancelled_idle.add(4)
    assert list(audit(facts)) == []


class TestRecords:
    def test_one_that_was_put_there_and_is_lost(self):
        assert "is lost" in only(books([], [], deeds=Deeds(subjects={"quick 7": "quick"})))

    def test_one_that_nobody_put_there(self):
        assert "nobody put it there" in only(books([record(1)], [ran(1, 10)], deeds=Deeds()))

    def test_one_that_is_there_twice(self):
        records = [record(1), record(2, subject="quick 1")]
        assert "there 2 times" in only(books(records, [ran(1, 10), ran(2, 10)]))

    def test_one_that_still_runs(self):
        facts = books([record(1, status=Status.RUNNING, leased=True), record(2)], [ran(2, 990)])
        assert "still runs" in only(facts)

    def test_one_that_runs_without_a_lease(self):
        found = list(audit(books([record(1, status=Status.READY, leased=True)], [], drained=False)))
        assert any("if and only if" in line for line in found)

    def test_one_that_is_unfinished_counts_only_when_there_was_time_to_drain(self):
        facts = books([record(1, status=Status.READY, attempt=0), record(2)], [ran(2, 990)])
        assert "unfinished" in only(facts)
        assert list(audit(replace(facts, drained=False))) == []

    def test_a_backlog_that_does_not_move_has_stalled(self):
        facts = books([record(1, status=Status.READY, attempt=0), record(2)], [ran(2, 900)], drained=False)
        assert "no attempt ended in the last 99 s" in only(facts)


class TestHistories:
    def test_an_attempt_that_was_forgotten(self):
        assert "claimed 2 times" in only(books([record(1, attempt=2)], [ran(1, 10)]))

    def test_an_attempt_number_above_that_of_the_record(self):
        assert "claimed 1 times" in only(
            books([record(1)], [ran(1, 5, outcome=AttemptOutcome.HANDOFF), ran(1, 10, number=2)])
        )

    def test_an_attempt_that_began_before_the_last_one_ended(self):
        runs = [ran(1, 10, outcome=AttemptOutcome.HANDOFF, seconds=3), ran(1, 11, number=2)]
        assert "2.00 s before" in only(books([record(1, attempt=2)], runs))

    def test_attempts_of_a_record_that_is_not_there(self):
        assert "not there" in only(books([], [ran(1, 10)]))


class TestSuccesses:
    def test_two_of_them(self):
        found = list(audit(books([record(1, attempt=2)], [ran(1, 10), ran(1, 20, number=2)])))
        assert "succeeded 2 times" in found[0]

    def test_one_that_the_record_does_not_know_of(self):
        facts = books([record(1, status=Status.READY)], [ran(1, 990)], drained=False)
        assert "has the succeeded attempts [1]" in only(facts)

    def test_one_that_the_history_does_not_know_of(self):
        assert "has the succeeded attempts []" in only(books([record(1, failures=1)], [ran(1, 10, outcome=FAILED)]))

    def test_one_after_which_it_was_tried_again(self):
        runs = [ran(1, 10), ran(1, 20, number=2, outcome=AttemptOutcome.RELEASED)]
        assert "tried again" in only(books([record(1, attempt=2)], runs))


class TestFailures:
    def test_one_that_is_not_counted(self):
        runs = [ran(1, 10, outcome=FAILED), ran(1, 20, number=2)]
        assert "counts 0 failures, its history has 1" in only(books([record(1, attempt=2)], runs))

    @pytest.mark.parametrize("outcome", [AttemptOutcome.RELEASED, AttemptOutcome.HANDOFF, AttemptOutcome.UNAVAILABLE])
    def test_what_is_no_failure_and_counted_as_one(self, outcome):
        runs = [ran(1, 10, outcome=outcome), ran(1, 20, number=2)]
        assert "counts 1 failures, its history has 0" in only(books([record(1, attempt=2, failures=1)], runs))

    def test_one_that_gave_up_too_early(self):
        records = [record(1, status=Status.FAILED, failures=1, max_failures=3)]
        assert "gives up at 3" in only(books(records, [ran(1, 10, outcome=FAILED)]))

    def test_one_that_did_not_give_up(self):
        records = [record(1, attempt=3, failures=2, max_failures=2)]
        runs = [ran(1, 10, outcome=FAILED), ran(1, 20, number=2, outcome=FAILED), ran(1, 30, number=3)]
        assert "gives up at 2" in only(books(records, runs))


class TestCancels:
    def test_one_that_failed_though_it_was_cancelled_while_it_ran(self):
        records = [record(1, status=Status.FAILED, failures=1, max_failures=1, cancelled_at=10.5)]
        assert "was cancelled while it ran" in only(books(records, [ran(1, 10, outcome=FAILED)]))

    def test_one_that_succeeded_in_a_later_attempt(self):
        runs = [ran(1, 10, outcome=AttemptOutcome.RELEASED), ran(1, 20, number=2)]
        assert "claimed again, as attempt 2" in only(books([record(1, attempt=2, cancelled_at=10.5)], runs))
        assert list(audit(books([record(1, cancelled_at=10.5)], [ran(1, 10)]))) == []

    def test_one_that_was_forgotten(self):
        facts = books([record(1), record(2)], [ran(1, 10), ran(2, 10)])
        facts.deeds.asked_to_stop.add(1)
        facts.deeds.cancelled_idle.add(2)
        asked, idle = audit(facts)
        assert "does not know of it" in asked
        assert "was cancelled while it did not run" in idle

    def test_one_that_nobody_asked_for(self):
        facts = books([record(1, status=Status.CANCELLED, attempt=0)], [])
        assert "cancelled by nobody" in only(facts)
        facts.deeds.cancels_in_doubt.add(1)
        assert list(audit(facts)) == []


class TestBookings:
    @pytest.mark.parametrize(
        ("bookings", "said"),
        [([], "no booking"), ([(1, 1), (1, 1)], "booked 2 times"), ([(1, 1), (1, 2)], "booked and did not succeed")],
    )
    def test_a_hook_writes_exactly_with_its_success(self, bookings, said):
        assert said in only(books([record(1, kind="booked")], [ran(1, 10)], bookings=bookings))


class TestPauses:
    @pytest.mark.parametrize(("began", "is_found"), [(9.0, False), (11.0, True), (21.0, False)])
    def test_a_claim_from_a_paused_queue(self, began, is_found):
        facts = books([record(1)], [ran(1, began, pid=KILLED)])
        facts.deeds.pauses.append(Pause("work", 10, 20))
        assert any("after its pause" in line for line in audit(facts)) == is_found
