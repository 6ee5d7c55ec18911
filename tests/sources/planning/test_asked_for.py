"""Requests of users: back up now, pause, resume; and pauses by their agents, as a snooze, which yield to operators."""

import pytest
from django.db import transaction

from fleet import pauses
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Handoff, Released
from jobs.states import Status, WaitingFor
from jobs.tick import promote
from sources import planning
from sources.models import Assignment, Source
from sources.planning import clock_repairs
from tests.sources.factories import (
    backed_up,
    claim,
    handed_on,
    make_assignment,
    make_policy,
    make_source,
    record_of,
    settle,
    unfinished,
)
from tests.sources.planning.planned import DAY, HOUR, MINUTE, NIGHTS, NINE, edited, tick
from tests.threads import a_lock_is_waited_for, at_once, beside
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db


class TestBackUpNow:
    def test_what_is_not_due_gets_a_record_at_the_head_of_the_backlog(self) -> None:
        policy = make_policy(priority=3, window=NIGHTS)
        first = make_assignment(make_policy(priority=3))
        planning.emit_due(NINE)
        asked = backed_up(policy, NINE, failures=2)
        assert planning.back_up_now([asked], NINE + HOUR) == 1
        record = record_of(asked)
        assert record.priority == 3 + planning.BACK_UP_NOW_PRIORITY
        assert (record.due_day, record.trigger_at, record.closes_at) == ((NINE + DAY).date(), None, None)
        assert record.failures == 2
        assert [claim("availability", NINE + HOUR).id, claim("availability", NINE + HOUR).id] == [
            record.pk,
            record_of(first).pk,
        ]

    @pytest.mark.parametrize("waiting_for", [WaitingFor.BACKOFF, WaitingFor.RECHECK, WaitingFor.WINDOW])
    def test_a_waiting_record_is_moved_and_not_doubled(self, waiting_for: WaitingFor) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        BacklogRecord.objects.update(status=Status.WAITING, waiting_for=waiting_for, run_after=NINE + DAY)
        assert planning.back_up_now([assignment], NINE) == 1
        record = record_of(assignment)
        assert (record.status, record.run_after) == (Status.READY, NINE)
        assert record.priority == planning.BACK_UP_NOW_PRIORITY

    def test_a_record_that_is_copied_is_left_alone_and_so_is_a_disabled_policy(self) -> None:
        assert planning.back_up_now([make_assignment(make_policy(enabled=False))], NINE) == 0
        assert not BacklogRecord.objects.exists()
        assignment = make_assignment()
        planning.emit_due(NINE)
        claimed = handed_on(assignment, NINE)
        assert planning.back_up_now([assignment], NINE) == 0
        assert (record_of(assignment).status, record_of(assignment).pk) == (Status.RUNNING, claimed.id)
        assert record_of(assignment).priority == 0

    def test_a_record_that_has_its_source_already_lets_the_one_behind_it_ask_again(self) -> None:
        source = make_source()
        first, second = make_assignment(source=source), make_assignment(source=source)
        for assignment in (first, second):
            planning.back_up_now([assignment], NINE)
            settle(claim("availability", NINE), Handoff("backups", source.exclusive_key), NINE)
        assert record_of(second).waiting_for == WaitingFor.THROTTLE
        planning.back_up_now([first], NINE)
        promote(NINE)
        assert record_of(second).status == Status.READY

    def test_an_edit_of_the_policy_leaves_it_at_the_head_outside_of_the_window(self) -> None:
        policy = make_policy(priority=3, window=NIGHTS)
        asked, other = make_assignment(policy), make_assignment(policy)
        planning.emit_due(NINE)
        planning.back_up_now([asked], NINE)
        edited(policy, priority=7)
        tick(NINE)
        record = record_of(asked)
        assert (record.priority, record.status, record.closes_at) == (103, Status.READY, None)
        assert (record_of(other).priority, record_of(other).status) == (7, Status.WAITING)


class TestPause:
    def test_a_paused_source_leaves_the_backlog_and_comes_back_in_the_same_period(self) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        assert planning.pause([assignment.source], NINE) == 1
        assert planning.emit_due(NINE) == 0
        cancelled = BacklogRecord.objects.get()
        assert (cancelled.status, cancelled.last_error) == (Status.CANCELLED, "paused by a user")
        assert planning.resume([assignment.source], NINE + HOUR) == 1
        assert record_of(assignment).trigger_at == NINE
        assert Source.objects.get().paused_at is None

    def test_pausing_twice_counts_once_and_so_does_resuming_which_emits_nothing_that_is_not_due(self) -> None:
        source = backed_up(make_policy(), NINE).source
        assert [planning.pause([source], NINE), planning.pause([source], NINE + HOUR)] == [1, 0]
        assert Source.objects.get().paused_at == NINE
        assert [planning.resume([source], NINE), planning.resume([source], NINE)] == [1, 0]
        assert unfinished() == 0

    def test_a_running_backup_is_stopped_on_demand_and_comes_back_with_the_resume(self) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        running = handed_on(assignment, NINE)
        other = make_assignment(assignment.policy)
        planning.emit_due(NINE)
        planning.pause([assignment.source], NINE)
        assert planning.back_up_now([assignment], NINE) == 0
        assert (record_of(assignment).status, record_of(other).status) == (Status.RUNNING, Status.READY)
        assert planning.pause([assignment.source], NINE, stop=True) == 0
        assert record_of(assignment).cancel_requested_at == NINE
        settle(running, Released(), NINE)
        assert unfinished() == 1
        planning.resume([assignment.source], NINE + HOUR)
        assert record_of(assignment).trigger_at == NINE

    def test_what_a_pause_stops_comes_back_though_the_resume_comes_before_its_end(self) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        running = handed_on(assignment, NINE)
        planning.pause([assignment.source], NINE, stop=True)
        planning.resume([assignment.source], NINE)
        settle(running, Released(), NINE)
        planning.catch_up(NINE + HOUR)
        assert record_of(assignment).status == Status.READY


@pytest.mark.django_db(transaction=True)
def test_a_record_that_is_claimed_at_the_same_moment_is_left_to_its_claim() -> None:
    assignment = make_assignment()
    planning.emit_due(NINE)
    with transaction.atomic():
        claim("availability", NINE)
        asked = beside(lambda: planning.back_up_now([assignment], NINE))
        eventually(a_lock_is_waited_for)
    assert asked.result(PATIENCE) == 1  # once it is settled
    assert record_of(assignment).status == Status.RUNNING


@pytest.mark.django_db(transaction=True)
def test_two_people_who_ask_at_once_get_one_record() -> None:
    assignment = make_assignment()
    at_once(*[lambda: planning.back_up_now([assignment], NINE)] * 4)
    assert record_of(assignment).priority == planning.BACK_UP_NOW_PRIORITY


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
    assert clock_repairs.correct(NINE) == 1
    assert paused()[0] == TWO
    assert assignment.source.pauses.get().since == NINE
