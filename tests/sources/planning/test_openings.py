"""Backups that only start if they fit into their window, and those that are stopped when it closes."""

from datetime import datetime, timedelta

import pytest

from jobs.models import Decision
from jobs.outcomes import Released
from jobs.states import Status, WaitingFor
from sources import planning
from sources.models import Assignment, AtClose, Policy
from sources.planning.openings import STARTS_ALL_THE_SAME_AFTER, stops_at
from tests.sources.factories import MONDAY, backed_up, handed_on, make_assignment, make_policy, record_of, settle
from tests.sources.planning.planned import DAY, HOUR, NIGHTS, NINE, tick

pytestmark = pytest.mark.django_db

TEN, SIX = MONDAY + 22 * HOUR, MONDAY + 30 * HOUR
"""Tonight's window opens and closes."""


def fitting(**fields: object) -> Policy:
    return make_policy(window=NIGHTS, only_if_it_fits=True, **fields)


def place(assignment: Assignment) -> tuple[int, datetime, datetime | None]:
    record = record_of(assignment)
    return record.status, record.run_after, record.closes_at


class TestWhatFits:
    def test_it_may_start_as_long_as_its_last_duration_ends_before_the_window_does(self) -> None:
        assignment = backed_up(fitting(), MONDAY - DAY, seconds=3 * 3600.0)
        other, new = backed_up(make_policy(window=NIGHTS), MONDAY - DAY, seconds=10_800.0), make_assignment(fitting())
        planning.emit_due(MONDAY + 23 * HOUR)
        assert place(assignment) == (Status.READY, MONDAY + 23 * HOUR, SIX - 3 * HOUR)
        assert place(other) == place(new) == (Status.READY, MONDAY + 23 * HOUR, SIX)

    def test_too_late_it_is_put_off_to_the_next_opening_and_that_is_counted_and_told(self) -> None:
        assignment = backed_up(fitting(), MONDAY - DAY, seconds=3 * 3600.0)
        planning.emit_due(MONDAY + 23 * HOUR)
        tick(SIX - 3 * HOUR)
        assert place(assignment) == (Status.WAITING, TEN + DAY, SIX + DAY - 3 * HOUR)
        assignment.refresh_from_db()
        assert assignment.skips == 1
        assert "has been put off 1 time in a row" in Decision.objects.get(what="left out").text

    def test_after_three_openings_it_starts_all_the_same(self) -> None:
        assignment = backed_up(fitting(), MONDAY - 2 * DAY, seconds=9 * 3600.0)
        planning.emit_due(TEN)
        for night in range(STARTS_ALL_THE_SAME_AFTER):
            tick(TEN + night * DAY)
            record = record_of(assignment)
            assert (record.status, record.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
        tick(TEN + 3 * DAY)
        assert place(assignment) == (Status.READY, TEN + 3 * DAY, SIX + 3 * DAY)

    def test_a_period_that_begins_after_three_skips_starts_it_all_the_same(self) -> None:
        assignment = backed_up(fitting(), MONDAY - 2 * DAY, seconds=9 * 3600.0, skips=STARTS_ALL_THE_SAME_AFTER)
        planning.emit_due(TEN)
        assert place(assignment) == (Status.READY, TEN, SIX)

    def test_a_window_that_closed_before_its_turn_is_no_opening_it_was_left_out_of(self) -> None:
        assignment = backed_up(fitting(), MONDAY - DAY, seconds=60.0)
        planning.emit_due(MONDAY + 23 * HOUR)
        tick(SIX)
        assignment.refresh_from_db()
        assert assignment.skips == 0
        assert place(assignment) == (Status.WAITING, TEN + DAY, SIX + DAY - timedelta(minutes=1))

    def test_an_edit_of_the_policy_in_an_open_window_leaves_it_ready_if_it_fits(self) -> None:
        policy = fitting()
        assignment = backed_up(policy, MONDAY - DAY, seconds=3600.0)
        planning.emit_due(MONDAY + 23 * HOUR)
        planning.replan(policy, MONDAY + 24 * HOUR)
        tick(MONDAY + 24 * HOUR)
        assignment.refresh_from_db()
        assert (assignment.skips, place(assignment)) == (0, (Status.READY, MONDAY + 24 * HOUR, SIX - HOUR))

    def test_before_its_window_opens_nothing_was_left_out_of_it_however_long_it_takes(self) -> None:
        policy = fitting()
        assignment = backed_up(policy, MONDAY - DAY, seconds=9 * 3600.0)
        planning.emit_due(NINE)
        planning.replan(policy, TEN - timedelta(minutes=30))
        tick(TEN - timedelta(minutes=30))
        assignment.refresh_from_db()
        assert (assignment.skips, record_of(assignment).run_after) == (0, TEN)


class TestAtTheClose:
    @pytest.mark.parametrize(
        ("at_close", "skips", "stops"),
        [(AtClose.STOP, 0, True), (AtClose.FINISH, 0, False), (AtClose.STOP, STARTS_ALL_THE_SAME_AFTER, False)],
    )
    def test_a_policy_that_stops_does_so_when_the_window_closes_but_not_what_could_never_fit(
        self, at_close: str, skips: int, stops: bool
    ) -> None:
        assignment = make_assignment(make_policy(window=NIGHTS, at_close=at_close), skips=skips)
        assert stops_at(assignment.policy, assignment, TEN + HOUR) == (SIX if stops else None)
        assert stops_at(assignment.policy, assignment, SIX) == (SIX if stops else None)  # has just closed: at once
        assert stops_at(make_policy(at_close=at_close), assignment, TEN) is None

    def test_what_was_stopped_goes_on_in_the_next_opening_and_that_is_no_failure(self) -> None:
        assignment = make_assignment(make_policy(window=NIGHTS, at_close=AtClose.STOP))
        planning.emit_due(TEN)
        running = handed_on(assignment, TEN)
        settle(running, Released("its window closed"), SIX)
        tick(SIX)
        record = record_of(assignment)
        assert (record.status, record.waiting_for, record.failures) == (Status.WAITING, WaitingFor.WINDOW, 0)
        assert record.run_after == TEN + DAY
