"""Requests of users and agents while a record is being asked or copied, and two requests at once."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.utils import OperationalError

from engines.base import EngineResult, Verdict
from jobs import window_ends
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, Failed, Handoff, Outcome, Postponed, Released, Succeeded, Unavailable
from jobs.priorities import FIRST_IN_LINE
from jobs.states import Status, WaitingFor
from sources import planning
from sources.availability import check, wake
from sources.models import Assignment, Source
from sources.planning import replanning
from tests.factories import make_worker
from tests.sources.factories import (
    MONDAY,
    backed_up,
    claim,
    claimed_for,
    handed_on,
    make_assignment,
    make_policy,
    make_source,
    record_of,
    settle,
)
from tests.sources.planning.planned import DAY, HOUR, MINUTE, NIGHTS, NINE, edited, tick
from tests.threads import a_lock_is_waited_for, beside, meeting
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db

DAYS = [{"start": "08:00", "end": "20:00"}]
SILENT = Unavailable("silent", 900)


def without_asking(assignment: Assignment, record: object) -> Outcome | None:
    related = Assignment.objects.select_related("source", "policy__schedule")
    return check._without_asking(related.get(pk=assignment.pk), record)  # type: ignore[arg-type]


class TestBackUpNow:
    @pytest.mark.parametrize("outcome", [SILENT, Handoff("backups"), Postponed(NINE + DAY, WaitingFor.SNOOZE, "no")])
    def test_what_is_being_asked_comes_ahead_when_that_is_settled(self, outcome: Outcome) -> None:
        assignment = make_assignment(make_policy(priority=3, window=DAYS))
        planning.emit_due(NINE)
        asked = claim("availability", NINE)
        assert planning.back_up_now([assignment], NINE) == 1
        settle(asked, outcome, NINE + MINUTE)
        record = record_of(assignment)
        assert (record.status, record.priority, record.closes_at) == (Status.READY, 103, None)
        assignment.refresh_from_db()
        assert assignment.asked_for_at is None

    def test_a_release_keeps_it_and_a_failure_ends_it(self) -> None:
        released, failed = make_assignment(), make_assignment()
        for assignment, outcome in ((released, Released()), (failed, Failed("no"))):
            planning.emit_due(NINE, [assignment.pk])
            asked = claim("availability", NINE)
            planning.back_up_now([assignment], NINE)
            settle(asked, outcome, NINE + MINUTE)
            BacklogRecord.objects.exclude(subject=planning.subject_of(assignment.pk)).update(queue="elsewhere")
            assignment.refresh_from_db()
            assert assignment.asked_for_at is None
            BacklogRecord.objects.filter(subject=planning.subject_of(assignment.pk)).update(queue="elsewhere")
        assert record_of(released).priority == planning.BACK_UP_NOW_PRIORITY
        assert (record_of(failed).priority, record_of(failed).waiting_for) == (0, WaitingFor.BACKOFF)

    @pytest.mark.parametrize(
        ("closed", "opens_at"),
        [({"window": NIGHTS}, MONDAY + 22 * HOUR), ({"excluded_dates": ["2026-03-02"]}, MONDAY + DAY)],
    )
    def test_its_retry_is_kept_to_the_window_and_to_excluded_dates_again(
        self, closed: dict[str, Any], opens_at: datetime
    ) -> None:
        assignment = make_assignment(make_policy(priority=3, **closed))
        planning.back_up_now([assignment], NINE)
        settle(claim("availability", NINE), Failed("no"), NINE)
        assert (record_of(assignment).priority, record_of(assignment).waiting_for) == (3, WaitingFor.BACKOFF)
        tick(NINE + 5 * HOUR)
        record = record_of(assignment)
        assert (record.waiting_for, record.run_after) == (WaitingFor.WINDOW, opens_at)


class TestUnwilling:
    def test_mains_power_between_question_and_settle_counts(self) -> None:
        assignment = make_assignment(make_policy(on_battery=False))
        planning.emit_due(NINE)
        asked = claim("availability", NINE)
        Source.objects.update(checked_in_at=NINE, on_battery=True)
        postponed = without_asking(assignment, asked)
        Source.objects.update(checked_in_at=NINE + MINUTE, on_battery=False)
        assert postponed is not None
        settle(asked, postponed, NINE + MINUTE)
        assert record_of(assignment).status == Status.READY


class TestAnEdit:
    def test_a_policy_that_is_disabled_meanwhile_ends_what_is_being_asked_and_it_comes_back(self) -> None:
        policy = make_policy()
        assignment = make_assignment(policy)
        planning.emit_due(NINE)
        asked = claim("availability", NINE)
        edited(policy, enabled=False)
        ended = without_asking(assignment, asked)
        assert ended == Cancelled("its policy is disabled")
        settle(asked, ended, NINE)
        edited(policy, enabled=True)
        tick(NINE)
        assert record_of(assignment).status == Status.READY

    def test_a_pause_that_is_over_before_what_saw_it_is_settled_costs_no_period(self) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        asked = claim("availability", NINE)
        planning.pause([assignment.source], NINE)
        ended = without_asking(assignment, asked)
        assert ended == Cancelled("its source is paused")
        planning.resume([assignment.source], NINE)
        settle(asked, ended, NINE)
        planning.catch_up(NINE + MINUTE)
        assert record_of(assignment).status == Status.READY

    def test_another_window_holds_for_what_is_being_asked(self) -> None:
        policy = make_policy(window=DAYS)
        assignment = make_assignment(policy)
        planning.emit_due(NINE)
        asked = claim("availability", NINE)
        edited(policy, window=NIGHTS)
        settle(asked, Handoff("backups", assignment.source.exclusive_key), NINE)
        tick(NINE + MINUTE)
        record = record_of(assignment)
        assert (record.queue, record.waiting_for) == ("availability", WaitingFor.WINDOW)


def test_what_vanished_and_has_checked_in_before_that_was_settled_is_first_in_line() -> None:
    assignment = backed_up(make_policy(), MONDAY - 2 * DAY)
    planning.emit_due(NINE)
    copied = handed_on(assignment, NINE)
    Source.objects.update(checked_in_at=NINE + 5 * MINUTE)
    settle(copied, Unavailable("it vanished", 900, silent_for=120), NINE + 6 * MINUTE)
    assert (record_of(assignment).status, record_of(assignment).priority) == (Status.READY, FIRST_IN_LINE)


def test_two_policies_of_one_source_wake_it_once() -> None:
    make_worker(queues={"backups": 1}, heartbeat_at=database_clock())
    source = make_source(kind="sftp", address="192.0.2.9", mac_address="02:00:00:aa:bb:cc", wake_address="127.0.0.1")
    both = [make_assignment(make_policy(wake_allowed=True, wake_wait=180), source) for _ in range(2)]
    read = [Assignment.objects.select_related("source", "policy__schedule").get(pk=one.pk) for one in both]
    outcomes = [wake._after_silence(claimed_for(one), one, "silent", "127.0.0.1") for one in read]
    source.refresh_from_db()
    assert source.wakes == 1
    assert all(isinstance(outcome, Unavailable) and outcome.woken for outcome in outcomes)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: object) -> None:
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(check, "_look_up", away)
    record = claimed_for(make_assignment(), started_at=NINE)
    outcome = async_to_sync(check.ask_source)(Run(record))
    assert isinstance(outcome, Postponed)
    assert (outcome.until, outcome.waiting_for) == (NINE + timedelta(seconds=30), WaitingFor.RECHECK)


def test_what_comes_ahead_behind_a_gate_does_not_take_the_key_of_the_one_that_runs() -> None:
    first = make_assignment()
    second = make_assignment(make_policy(), first.source)
    planning.emit_due(NINE, [first.pk])
    running = handed_on(first, NINE)
    planning.emit_due(NINE, [second.pk])
    asked = claim("availability", NINE)
    planning.back_up_now([second], NINE)
    settle(asked, Handoff("backups", first.source.exclusive_key), NINE)
    assert claim("availability", NINE).id == asked.id
    assert BacklogRecord.objects.filter(exclusive_key__isnull=False).get().pk == running.id


def later(first: Callable[[], None], work: Callable[..., Any]) -> Callable[..., Any]:
    """`work`, after `first`."""

    def both(*given: Any) -> Any:
        first()
        return work(*given)

    return both


@pytest.mark.django_db(transaction=True)
class TestTwoAtOnce:
    def test_a_settle_does_not_overwrite_an_edit_of_the_policy(self) -> None:
        policy = make_policy(cron="0 9 1 * *")
        assignment = backed_up(policy, MONDAY - 60 * DAY)
        planning.emit_due(NINE)
        copied = handed_on(assignment, NINE)
        with transaction.atomic():
            edited(policy, cron="0 * * * *")
            done = Succeeded(EngineResult(Verdict.SUCCEEDED))
            under_way = beside(lambda: settle(copied, done, NINE + MINUTE))
            eventually(a_lock_is_waited_for)
        under_way.result(PATIENCE)
        assignment.refresh_from_db()
        assert assignment.next_backup_at == NINE + HOUR

    @pytest.mark.parametrize("verb", ["pause", "edit"])
    def test_what_is_taken_off_the_backlog_holds_up_no_other_record_of_its_source(self, verb: str) -> None:
        first = make_assignment()
        second = make_assignment(make_policy(), first.source)
        planning.emit_due(NINE, [first.pk])
        to_backups = Handoff("backups", first.source.exclusive_key)
        settle(claim("availability", NINE), to_backups, NINE)
        planning.emit_due(NINE, [second.pk])
        asked = claim("availability", NINE)
        with transaction.atomic():
            if verb == "pause":
                planning.pause([first.source], NINE)
            else:
                edited(first.policy, enabled=False)
            under_way = beside(lambda: settle(asked, to_backups, NINE))
            eventually(a_lock_is_waited_for)
        under_way.result(PATIENCE)
        assert record_of(second).status == Status.READY

    def test_an_edit_lets_the_one_behind_look_again(self) -> None:
        first = make_assignment()
        second = make_assignment(make_policy(), first.source)
        to_backups = Handoff("backups", first.source.exclusive_key)
        for assignment in (first, second):
            planning.emit_due(NINE, [assignment.pk])
            settle(claim("availability", NINE), to_backups, NINE)
        assert record_of(second).waiting_for == WaitingFor.THROTTLE
        edited(first.policy, enabled=False)
        assert record_of(second).run_after == NINE

    def test_a_closing_window_and_an_edit_do_not_block_each_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        policy = make_policy(window=DAYS, only_if_it_fits=True)
        backed_up(policy, MONDAY - DAY, seconds=7200.0)
        planning.emit_due(NINE)
        late = MONDAY + 19 * HOUR
        arrive = meeting()
        monkeypatch.setattr(window_ends.exclusivity, "open_gates", later(arrive, window_ends.exclusivity.open_gates))
        monkeypatch.setattr(replanning, "_move", later(arrive, replanning._move))
        closed, edited = beside(lambda: window_ends.close_windows(late)), beside(lambda: planning.replan(policy, late))
        closed.result(PATIENCE)
        edited.result(PATIENCE)
