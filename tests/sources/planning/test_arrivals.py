"""A source checks in: its record stands at its true place at once, whatever silence had made of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event

import pytest
from django.core.management import call_command
from django.db import transaction

from jobs import settling, tick
from jobs.models import Attempt, BacklogRecord, Decision
from jobs.outcomes import Failed, Handoff, Unavailable
from jobs.priorities import FIRST_IN_LINE
from jobs.states import Status, WaitingFor
from operations import silences
from sources import planning
from sources.models import Assignment, Source
from tests.factories import claim_ready, make_retry_policy
from tests.sources.factories import (
    MONDAY,
    backed_up,
    claim,
    handed_on,
    make_assignment,
    make_policy,
    make_source,
    record_of,
    settle,
)
from tests.sources.planning.planned import DAY, HOUR, MINUTE, NINE, announce
from tests.threads import a_lock_is_waited_for, beside
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db

SILENT = Unavailable("silent", 900.0)


def silent_since_nine(assignment: Assignment) -> BacklogRecord:
    planning.emit_due(NINE, [assignment.pk])
    settle(claim("availability", NINE), SILENT, NINE)
    return record_of(assignment)


class TestWaitingForItsRecheck:
    def test_it_is_ready_at_its_true_place(self) -> None:
        assignment = backed_up(make_policy(), MONDAY - 5 * DAY)
        assert silent_since_nine(assignment).rank_day == MONDAY.date()
        assert announce(assignment.source, NINE + MINUTE) == 1
        record = record_of(assignment)
        assert (record.status, record.waiting_for, record.run_after) == (Status.READY, None, NINE + MINUTE)
        assert (record.queue, record.priority) == (planning.ARRIVALS, 0)
        assert (record.rank_day, record.tried_at) == (record.due_day, None)
        assert record.due_day == (MONDAY - 5 * DAY).date()

    @pytest.mark.parametrize("waiting_for", [WaitingFor.BACKOFF, WaitingFor.WINDOW, WaitingFor.SNOOZE])
    def test_every_other_wait_goes_on(self, waiting_for: WaitingFor) -> None:
        assignment = make_assignment()
        silent_since_nine(assignment)
        BacklogRecord.objects.update(waiting_for=waiting_for)
        assert announce(assignment.source, NINE + MINUTE) == 0
        record = record_of(assignment)
        wanted = (Status.WAITING, waiting_for, NINE + 15 * MINUTE)
        assert (record.status, record.waiting_for, record.run_after) == wanted

    def test_a_closed_window_stays_closed(self) -> None:
        assignment = make_assignment(make_policy(window=[{"days": "mon-sun", "start": "08:00", "end": "10:00"}]))
        silent_since_nine(assignment)
        announce(assignment.source, NINE + 2 * HOUR)
        tick.tick(NINE + 2 * HOUR, rescue=False)
        assert record_of(assignment).waiting_for == WaitingFor.WINDOW


class TestNotOnTheBacklogYet:
    def test_each_of_its_policies_counts_by_itself_and_other_sources_not_at_all(self) -> None:
        source = make_source()
        for policy in (make_policy(), make_policy()):
            make_assignment(policy, source)
        backed_up(make_policy(), NINE, source=source)
        make_assignment()
        assert [announce(source, NINE), announce(source, NINE + MINUTE)] == [2, 0]
        assert [each.queue for each in BacklogRecord.objects.all()] == [planning.ARRIVALS] * 2

    def test_a_paused_source_and_a_disabled_policy_move_nothing(self) -> None:
        disabled, paused = make_assignment(make_policy(enabled=False)), make_assignment()
        planning.pause([paused.source], NINE)
        assert [announce(each.source, NINE) for each in (disabled, paused)] == [0, 0]


class TestBatteryAndMeter:
    @pytest.mark.parametrize(("state", "rule"), [("on_battery", "on_battery"), ("metered", "on_metered")])
    def test_what_the_policy_does_not_allow_moves_nothing_until_it_is_over(self, state: str, rule: str) -> None:
        assignment = make_assignment(make_policy(**{rule: False}))
        silent_since_nine(assignment)
        assert announce(assignment.source, NINE + MINUTE, **{state: True}) == 0
        assert announce(assignment.source, NINE + 2 * MINUTE, **{state: False}) == 1

    def test_a_report_of_an_hour_ago_is_not_believed_any_more(self) -> None:
        assignment = make_assignment(make_policy(on_battery=False))
        Source.objects.update(checked_in_at=NINE - 2 * HOUR, on_battery=True)
        assignment.source.refresh_from_db()
        assert planning.check_in(assignment.source, NINE) == 1


def test_what_a_unit_hands_back_has_not_answered_again() -> None:
    assignment = make_assignment()
    planning.emit_due(NINE)
    settle(handed_on(assignment, NINE), Handoff("arrivals", found="it answered long ago"), NINE + HOUR)
    assignment.refresh_from_db()
    assert assignment.last_contacted_at == NINE
    assert (record_of(assignment).queue, record_of(assignment).exclusive_key) == ("arrivals", None)
    assert Decision.objects.latest("id").what == "asked again"


class TestVanished:
    def test_what_was_lost_in_mid_backup_is_first_in_line_at_its_next_check_in(self) -> None:
        policy = make_policy(vanish_grace=0)
        vanished = backed_up(policy, MONDAY - DAY)
        planning.emit_due(NINE)
        settle(handed_on(vanished, NINE), SILENT, NINE + MINUTE)
        vanished.refresh_from_db()
        assert vanished.vanished_at == NINE + MINUTE
        assert (vanished.failures, record_of(vanished).failures) == (0, 0)
        urgent = make_assignment(make_policy(priority=50))
        planning.emit_due(NINE + HOUR, [urgent.pk])
        announce(vanished.source, NINE + HOUR)
        assert record_of(vanished).priority == FIRST_IN_LINE
        asked = claim("arrivals", NINE + HOUR)
        assert asked.id == record_of(vanished).pk
        settle(asked, Handoff("backups", vanished.source.exclusive_key), NINE + HOUR)
        vanished.refresh_from_db()
        assert record_of(vanished).priority == 0
        # first in line once: silent again, it comes at its true place
        settle(claim("backups", NINE + HOUR), Handoff("arrivals"), NINE + HOUR)
        settle(claim("arrivals", NINE + HOUR + MINUTE), SILENT, NINE + HOUR + MINUTE)
        assert announce(vanished.source, NINE + 2 * HOUR) == 1
        assert record_of(vanished).priority == 0


class TestWhileItIsAsked:
    """The check-in comes while an earlier question hangs: the silence that is settled later counts for nothing."""

    def test_silence_that_is_settled_after_the_check_in_neither_demotes_nor_waits(self) -> None:
        assignment = backed_up(make_policy(), MONDAY - 5 * DAY)
        planning.emit_due(NINE)
        asked = claim("availability", NINE)
        announce(assignment.source, NINE + timedelta(seconds=30))
        settle(asked, SILENT, NINE + MINUTE)
        record = record_of(assignment)
        assert (record.status, record.rank_day, record.tried_at) == (Status.READY, record.due_day, None)
        assert "it has checked in since then" in Decision.objects.get(what="silent").text

    @pytest.mark.parametrize(("minutes", "status"), [(59, Status.READY), (10, Status.WAITING)])
    def test_a_copy_that_broke_is_asked_for_again_at_once_only_if_it_checked_in_just_now(
        self, minutes: int, status: Status
    ) -> None:
        assignment = backed_up(make_policy(), MONDAY - 5 * DAY)
        planning.emit_due(NINE)
        copied = handed_on(assignment, NINE)
        announce(assignment.source, NINE + minutes * MINUTE)
        settle(copied, Unavailable("it went away", 120, first_in_line=True, silent_for=60), NINE + HOUR)
        assert record_of(assignment).status == status


class TestEachSecond:
    """An agent announces a source that answers no question."""

    def test_it_is_asked_twice_a_minute_and_logged_as_often(self) -> None:
        assignment = backed_up(make_policy(), MONDAY - 5 * DAY)
        silent_since_nine(assignment)
        for second in range(1, 65, 3):
            now = NINE + timedelta(seconds=second)
            announce(assignment.source, now)
            tick.promote(now)
            for asked in claim_ready(1, "arrivals", now):
                settle(asked, SILENT, now)
        assert Attempt.objects.filter(queue="arrivals").count() == 3
        assert Decision.objects.filter(what="silent").count() == 1 + 3

    def test_what_checks_in_while_it_is_asked_for_a_check_in_waits_for_the_rest_of_that_time(self) -> None:
        assignment = backed_up(make_policy(), MONDAY - 5 * DAY)
        silent_since_nine(assignment)
        seconds = [NINE + timedelta(seconds=each) for each in range(60)]
        announce(assignment.source, seconds[1])
        settle(claim("arrivals", seconds[1]), Handoff("availability"), seconds[6])
        asked = claim("availability", seconds[6])
        announce(assignment.source, seconds[15])
        settle(asked, SILENT, seconds[16])
        record = record_of(assignment)
        assert (record.status, record.run_after) == (Status.WAITING, seconds[31])
        assert "asked again at 09:00:31 UTC" in Decision.objects.filter(what="silent").latest("id").text
        assert announce(assignment.source, seconds[20]) == 0
        assert announce(assignment.source, seconds[31]) == 1


@contextmanager
def uncommitted(work: Callable[[], object]) -> Iterator[None]:
    """While the block runs, another session has done `work` and has not committed."""
    done, may_commit = Event(), Event()

    def slowly() -> None:
        with transaction.atomic():
            work()
            done.set()
            assert may_commit.wait(PATIENCE)

    under_way = beside(slowly)
    assert done.wait(PATIENCE)
    try:
        yield
    finally:
        may_commit.set()
        under_way.result(PATIENCE)


@pytest.mark.django_db(transaction=True)
def test_a_check_in_at_the_moment_of_the_settle_is_never_lost() -> None:
    """The settle has found no check-in and has not committed: the check-in waits for it and then moves its record."""
    assignment = make_assignment()
    planning.emit_due(NINE)
    asked = claim("availability", NINE)
    with uncommitted(lambda: settling.settle([(asked, SILENT)], now=NINE)):
        arriving = beside(lambda: announce(assignment.source, NINE + MINUTE))
        eventually(a_lock_is_waited_for)
    assert arriving.result(PATIENCE) == 1
    assert record_of(assignment).status == Status.READY


@pytest.mark.django_db(transaction=True)
def test_a_settle_at_the_moment_of_the_check_in_sees_it() -> None:
    """The check-in has left the record that is being asked alone, and has not committed: the settle waits for it."""
    assignment = make_assignment()
    planning.emit_due(NINE)
    asked = claim("availability", NINE)
    with uncommitted(lambda: announce(assignment.source, NINE + MINUTE)):
        under_way = beside(lambda: settle(asked, SILENT, NINE + MINUTE))
        eventually(a_lock_is_waited_for)
    under_way.result(PATIENCE)
    record = record_of(assignment)
    assert (record.status, record.queue) == (Status.READY, planning.ARRIVALS)


def test_what_failed_and_was_silent_since_stands_where_its_failure_had_put_it() -> None:
    policy = make_policy(retry_policy=make_retry_policy(parameters={"base": 60}), zone="Asia/Tokyo")
    assignment = backed_up(policy, MONDAY - 5 * DAY)
    planning.emit_due(NINE)
    settle(handed_on(assignment, NINE), Failed("refused"), NINE)
    failed = record_of(assignment)
    tick.promote(NINE + DAY)
    settle(claim("availability", NINE + 3 * DAY), SILENT, NINE + 3 * DAY)
    announce(assignment.source, NINE + 3 * DAY + MINUTE)
    record = record_of(assignment)
    assert (record.rank_day, record.tried_at) == (failed.rank_day, failed.tried_at)
    settle(claim("arrivals", NINE + 4 * DAY), SILENT, NINE + 4 * DAY)
    announce(assignment.source, NINE + 4 * DAY + MINUTE)
    settle(claim("arrivals", NINE + 5 * DAY), Handoff("backups", assignment.source.exclusive_key), NINE + 5 * DAY)
    record = record_of(assignment)
    assert (record.rank_day, record.tried_at) == (failed.rank_day, failed.tried_at)


def test_a_source_that_stays_silent_leaves_one_row_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assignment = make_assignment()
    planning.emit_due(MONDAY)
    for number in range(9):
        now = MONDAY + number * 15 * MINUTE
        tick.promote(now)
        settle(claim("availability", now), Unavailable("no answer", 900), now)
    assert silences.compact(MONDAY + DAY) == 8
    assert Attempt.objects.get().facts == {silences.SILENCES: 9}
    call_command("backlog", "log", assignment.source.name, "--since", "2026-03-01T00:00")
    silent = [line for line in capsys.readouterr().out.splitlines() if "no answer" in line]
    assert len(silent) == 1
    assert silent[0].rstrip().endswith("(silent 9 times since 2026-03-02 00:00 UTC)")
