"""The audit of the tables finds each thing that must not be, and nothing in books that balance."""

from dataclasses import replace

import pytest

from jobs.states import AttemptOutcome, Status
from proving.chaos.audit_tables import audit
from proving.chaos.facts import Deeds, QueuePause
from tests.proving.chaos.books import KILLED, books, ran, record

FAILED, RELEASED, HANDOFF = AttemptOutcome.FAILED, AttemptOutcome.RELEASED, AttemptOutcome.HANDOFF
NOT_DRAINED = {"drained": False}


def test_books_that_balance_have_no_discrepancy():
    records = [
        record(1),
        record(2, attempt=2, failures=1),
        record(3, status=Status.FAILED, failures=2, attempt=2, max_failures=2),
        record(4, status=Status.CANCELLED, attempt=0),
        record(5, kind="booked"),
        record(6, cancelled_at=10.5),
        record(7, status=Status.CANCELLED, attempt=0),
    ]
    runs = [
        ran(1, 10),
        ran(2, 10, outcome=AttemptOutcome.RESCUED, settled=60),
        ran(2, 59.4, number=2),  # its claim arrived before the rescue, and took the row after it
        ran(3, 10, outcome=FAILED),
        ran(3, 20, number=2, outcome=FAILED),
        ran(5, 10),
        ran(6, 10),
    ]
    facts = books(records, runs, bookings=[(5, 1)])
    facts.deeds.cancelled_idle.add(4)
    facts.deeds.cancels_in_doubt.add(7)
    assert list(audit(facts)) == []


@pytest.mark.parametrize(
    ("message", "records", "runs", "more"),
    [
        # records
        ("is lost", [], [], {"deeds": Deeds(subjects={"quick 7": "quick"})}),
        ("no enqueue put it there", [record(1)], [ran(1, 10)], {"deeds": Deeds()}),
        ("there 2 times", [record(1), record(2, subject="quick 1")], [ran(1, 10), ran(2, 10)], {}),
        ("still runs", [record(1, status=Status.RUNNING, leased=True), record(2)], [ran(2, 990)], {}),
        ("unfinished", [record(1, status=Status.READY, attempt=0), record(2)], [ran(2, 990)], {}),
        (
            "no attempt ended in the last 99 s",
            [record(1, status=Status.READY, attempt=0), record(2)],
            [ran(2, 900)],
            NOT_DRAINED,
        ),
        # histories
        ("claimed 2 times", [record(1, attempt=2)], [ran(1, 10)], {}),
        ("claimed 1 times", [record(1)], [ran(1, 5, outcome=HANDOFF), ran(1, 10, number=2)], {}),
        ("7.00 s before", [record(1, attempt=2)], [ran(1, 10, outcome=HANDOFF, seconds=8), ran(1, 11, number=2)], {}),
        ("not there", [], [ran(1, 10)], {}),
        # successes
        ("has the succeeded attempts [1]", [record(1, status=Status.READY)], [ran(1, 990)], NOT_DRAINED),
        ("has the succeeded attempts []", [record(1, failures=1)], [ran(1, 10, outcome=FAILED)], {}),
        ("tried again", [record(1, attempt=2)], [ran(1, 10), ran(1, 20, number=2, outcome=RELEASED)], {}),
        # failures
        ("counts 0 failures, its history has 1", [record(1, attempt=2)],
         [ran(1, 10, outcome=FAILED), ran(1, 20, number=2)], {}),
        *[
            ("counts 1 failures, its history has 0", [record(1, attempt=2, failures=1)],
             [ran(1, 10, outcome=outcome), ran(1, 20, number=2)], {})
            for outcome in (RELEASED, HANDOFF, AttemptOutcome.UNAVAILABLE)
        ],
        ("gives up at 3", [record(1, status=Status.FAILED, failures=1, max_failures=3)],
         [ran(1, 10, outcome=FAILED)], {}),
        ("gives up at 2", [record(1, attempt=3, failures=2, max_failures=2)],
         [ran(1, 10, outcome=FAILED), ran(1, 20, number=2, outcome=FAILED), ran(1, 30, number=3)], {}),
        # cancels
        ("was cancelled while it ran", [record(1, status=Status.FAILED, failures=1, max_failures=1, cancelled_at=10.5)],
         [ran(1, 10, outcome=FAILED)], {}),
        ("claimed again, as attempt 2", [record(1, attempt=2, cancelled_at=10.5)],
         [ran(1, 10, outcome=RELEASED), ran(1, 20, number=2)], {}),
        ("cancelled without a request", [record(1, status=Status.CANCELLED, attempt=0)], [], {}),
        # bookings, which go with their success
        *[
            (message, [record(1, kind="booked")], [ran(1, 10)], {"bookings": bookings})
            for message, bookings in (
                ("no booking", []), ("booked 2 times", [(1, 1), (1, 1)]),
                ("booked and did not succeed", [(1, 1), (1, 2)]),
            )
        ],
    ],
)  # fmt: skip
def test_what_must_not_be_is_found(message, records, runs, more):
    [found] = audit(books(records, runs, **more))
    assert message in found


def test_an_unfinished_record_counts_only_when_there_was_time_to_drain():
    facts = books([record(1, status=Status.READY, attempt=0), record(2)], [ran(2, 990)])
    assert list(audit(replace(facts, drained=False))) == []


def test_a_lease_without_running_and_a_second_success_are_found_beside_what_follows_from_them():
    leased = audit(books([record(1, status=Status.READY, leased=True)], [], drained=False))
    assert any("if and only if" in line for line in leased)
    twice = audit(books([record(1, attempt=2)], [ran(1, 10), ran(1, 20, number=2)]))
    assert "succeeded 2 times" in next(iter(twice))


def test_a_cancel_that_was_forgotten_is_found():
    facts = books([record(1), record(2)], [ran(1, 10), ran(2, 10)])
    facts.deeds.asked_to_stop.add(1)
    facts.deeds.cancelled_idle.add(2)
    asked, idle = audit(facts)
    assert "does not know of it" in asked
    assert "was cancelled while it did not run" in idle


@pytest.mark.parametrize(("began", "is_found"), [(9.0, False), (11.0, True), (21.0, False)])
def test_a_claim_from_a_paused_queue_is_found(began, is_found):
    facts = books([record(1)], [ran(1, began, pid=KILLED)])
    facts.deeds.pauses.append(QueuePause("work", 10, 20))
    assert any("after its pause" in line for line in audit(facts)) == is_found
