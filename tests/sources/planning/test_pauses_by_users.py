"""A user pauses a source by its agent, as a snooze: it yields to operators, and ends by itself."""

import pytest

from fleet import pauses
from jobs.models import BacklogRecord, Decision
from jobs.states import Status
from sources import planning
from sources.models import Assignment, Source
from sources.planning import long_waits
from tests.sources.factories import make_assignment, record_of
from tests.sources.planning.planned import DAY, HOUR, MINUTE, NINE

pytestmark = pytest.mark.django_db

TWO = NINE + 5 * HOUR


def snooze(assignment: Assignment, until: object = TWO, now: object = NINE) -> int:
    return planning.pause([assignment.source], now, until=until, reason="none wanted", by="its user", by_user=True)  # type: ignore[arg-type]


def resume(assignment: Assignment, now: object = NINE + MINUTE) -> int:
    return planning.resume([assignment.source], now, by="its user", by_user=True)  # type: ignore[arg-type]


def paused() -> tuple[object, ...]:
    return Source.objects.values_list("paused_until", "paused_by_user", "paused_why").get()


def test_it_takes_the_record_off_and_its_end_brings_it_back_by_the_user_or_by_itself() -> None:
    assignment = make_assignment()
    planning.emit_due(NINE)
    assert (snooze(assignment), paused()) == (1, (TWO, True, "none wanted"))
    assert not BacklogRecord.objects.unfinished().exists()
    assert planning.emit_due(NINE + MINUTE) == 0
    assert (resume(assignment), resume(assignment), paused()) == (1, 0, (None, False, ""))
    assert record_of(assignment).status == Status.READY
    logged = Decision.objects.filter(subject=planning.subject_of_source(assignment.source_id)).values_list("text")
    text = "its user paused it until 2026-03-02 14:00 UTC: none wanted"
    assert logged.order_by("pk").first() == (text,)
    snooze(assignment, now=NINE + HOUR)
    snooze(assignment, NINE + 2 * HOUR, NINE + HOUR)  # a shorter one replaces a longer one
    assert (pauses.resume_those_over(NINE + 2 * HOUR), paused()) == (1, (None, False, ""))


def test_an_operators_pause_is_neither_changed_nor_ended_by_the_user() -> None:
    assignment = make_assignment()
    planning.pause([assignment.source], NINE, reason="sold", by="kim")
    assert (snooze(assignment), resume(assignment), paused()) == (0, 0, (None, False, "sold"))


def test_an_operators_pause_takes_the_place_of_the_users() -> None:
    assignment = make_assignment()
    snooze(assignment)
    assert planning.pause([assignment.source], NINE, by="kim") == 1
    assert (resume(assignment), paused()) == (0, (None, False, ""))
    assert pauses.resume_those_over(TWO) == 0, "it has no end any more"
    assert planning.resume([assignment.source], TWO, by="kim") == 1


def test_one_that_was_begun_under_a_clock_that_was_ahead_lasts_from_now_on() -> None:
    assignment, ahead = make_assignment(), NINE + 30 * DAY
    snooze(assignment, ahead + 5 * HOUR, ahead)
    assert long_waits.correct(NINE) == 1
    assert paused()[0] == TWO
    assert assignment.source.pauses.get().since == NINE
