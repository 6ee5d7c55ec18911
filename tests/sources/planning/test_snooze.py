"""Not before: a user puts the backups of a source off, and nothing brings them forward but a person."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs import tick
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Handoff, Unavailable
from jobs.states import Status, WaitingFor
from sources import planning
from sources.models import Assignment
from tests.sources.factories import MONDAY, backed_up, claim, make_assignment, make_policy, record_of, settle

pytestmark = pytest.mark.django_db

HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)
NINE = MONDAY + 9 * HOUR
TWO = NINE + 5 * HOUR


def state(assignment: Assignment) -> tuple[int, int | None, datetime]:
    record = record_of(assignment)
    return record.status, record.waiting_for, record.run_after


def test_a_ready_record_waits_until_then_also_through_a_check_in_and_is_ready_at_it() -> None:
    assignment = make_assignment()
    planning.emit_due(NINE)
    settle(claim("availability", NINE), Unavailable("silent", 900), NINE)
    assert planning.snooze([assignment.source], TWO, NINE) == 1
    assert planning.check_in(assignment.source, NINE + MINUTE) == 0
    assert state(assignment) == (Status.WAITING, WaitingFor.SNOOZE, TWO)
    assert tick.promote(TWO) == 1
    assert claim("availability", TWO).id == record_of(assignment).pk


def test_a_record_that_is_handed_on_gives_its_source_back() -> None:
    first = make_assignment()
    second = make_assignment(make_policy(), first.source)
    planning.emit_due(NINE)
    for _ in range(2):
        settle(claim("availability", NINE), Handoff("backups", first.source.exclusive_key), NINE)
    planning.snooze([first.source], TWO, NINE)
    assert state(first) == state(second) == (Status.WAITING, WaitingFor.SNOOZE, TWO)
    assert not BacklogRecord.objects.exclude(exclusive_key=None).exists()
    assert set(BacklogRecord.objects.values_list("queue", flat=True)) == {"availability"}


@pytest.mark.parametrize(
    ("window", "waits"),
    [
        ([], (WaitingFor.SNOOZE, TWO)),
        ([{"start": "22:00", "end": "06:00"}], (WaitingFor.WINDOW, MONDAY + 22 * HOUR)),
    ],
)
def test_what_becomes_due_meanwhile_waits_too_or_for_a_window_that_opens_later(window: Any, waits: Any) -> None:
    assignment = backed_up(make_policy(window=window), MONDAY - DAY)
    planning.snooze([assignment.source], TWO, NINE)
    planning.emit_due(NINE + MINUTE)
    assert state(assignment) == (Status.WAITING, *waits)


def test_its_end_makes_the_record_ready_at_once() -> None:
    assignment = make_assignment()
    planning.emit_due(NINE)
    planning.snooze([assignment.source], TWO, NINE)
    assert planning.unsnooze([assignment.source], NINE + MINUTE) == 1
    assert planning.unsnooze([assignment.source], NINE + MINUTE) == 0
    subject = planning.subject_of_source(assignment.source.pk)
    logged = Decision.objects.filter(subject=subject).order_by("id").values_list("what", flat=True)
    assert list(logged)[:2] == ["snoozed", "snooze over"]
    assert state(assignment) == (Status.READY, None, NINE + MINUTE)


def test_back_up_now_ends_it() -> None:
    assignment = make_assignment()
    second = make_assignment(make_policy(), assignment.source)
    planning.emit_due(NINE)
    planning.snooze([assignment.source], TWO + DAY, NINE)
    planning.snooze([assignment.source], TWO, NINE)  # a shorter one replaces a longer one
    assert state(second) == (Status.WAITING, WaitingFor.SNOOZE, TWO)
    planning.back_up_now([assignment], NINE + MINUTE)
    assert (record_of(second).status, record_of(second).priority) == (Status.READY, 0)
    assignment.source.refresh_from_db()
    assert assignment.source.snoozed_until is None
    assert state(assignment) == (Status.READY, None, NINE + MINUTE)


def test_an_instant_that_is_over_is_refused_and_changes_nothing() -> None:
    assignment = make_assignment()
    with pytest.raises(ValueError, match="not in the future"):
        planning.snooze([assignment.source], NINE, NINE)
    assignment.source.refresh_from_db()
    assert assignment.source.snoozed_until is None
