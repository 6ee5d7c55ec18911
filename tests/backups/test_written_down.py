"""The effects of a settled backup attempt on its assignment, its progress and the next record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from django.db.utils import OperationalError

from backups import repository_orders
from backups.copying.not_for_now import put_off
from backups.progress import ProgressWriter
from backups.upkeep import records
from engines.base import EngineProgress, EngineResult, Verdict
from fleet.foreseeing import durations
from jobs import settling
from jobs.backlog import cancelling
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Failed, Outcome, Postponed, Released, Succeeded, Unavailable
from jobs.settling import LeaseLost
from jobs.states import Status, WaitingFor
from schedules import emitter
from schedules.models import Schedule
from sources import planning
from sources.availability import check
from sources.models import Assignment, Backup, Policy, Progress, Repository
from tests import statements
from tests.factories import claim_ready
from tests.sources.factories import backed_up, claim, handed_on, make_assignment, make_policy, record_of, settle
from tests.sources.planning.planned import DAY, HOUR, NINE, tick

sent = statements.sent

pytestmark = pytest.mark.django_db

COUNTS = {"new": 1, "changed": 2, "unchanged": 4, "removed": 3, "read": 300, "added": 200}
COPIED = Succeeded(EngineResult(Verdict.WARNINGS, 500, 7, **COUNTS, snapshot="/srv/backups/x", warnings=("odd \0",)))


def test_progress_is_written_at_once_but_not_at_every_line_and_gone_when_the_attempt_is_settled() -> None:
    assignment = make_assignment()
    planning.emit_due(NINE)
    claimed = handed_on(assignment, NINE)
    write = ProgressWriter(claimed)
    for done in range(100):
        write(EngineProgress(bytes_done=done, bytes_total=1000, files_done=1))
    progress = Progress.objects.get()
    assert (progress.record_id, progress.attempt, progress.bytes_total) == (claimed.id, claimed.attempt, 1000)
    assert progress.bytes_done < 99
    settle(claimed, Released(), NINE)
    assert not Progress.objects.exists()


class TestWritingDown:
    def test_a_success_is_remembered_once_and_lies_where_it_went_whatever_repository_its_policy_has_since(self) -> None:
        assignment = make_assignment(failures=4)
        planning.emit_due(NINE)
        claimed, before = handed_on(assignment, NINE + HOUR), assignment.policy.repository
        Policy.objects.update(repository=Repository.objects.create(name="other", location="/srv/other"))
        copied = Succeeded(replace(COPIED.result, repository=before.pk))
        for hours in (3, 4):
            settle(claimed, copied, NINE + hours * HOUR)
        assignment.refresh_from_db()
        assert (assignment.last_backup_at, assignment.last_backup_for) == (NINE + HOUR, 7200)
        assert (assignment.last_backup_size, assignment.failures) == (500, 0)
        assert (assignment.next_backup_at, assignment.last_contacted_at) == (NINE + DAY, NINE + 3 * HOUR)
        backup = Backup.objects.get()
        assert (backup.assignment, backup.record_id, backup.attempt) == (assignment, claimed.id, claimed.attempt)
        assert (backup.started_at, backup.ended_at) == (NINE + HOUR, NINE + 3 * HOUR)
        assert (backup.size, backup.files, backup.engine, backup.warnings) == (500, 7, "rclone", ["odd \ufffd"])
        assert {name: getattr(backup, name) for name in COUNTS} == COUNTS
        assert backup.repository == before

    @pytest.mark.parametrize("ahead", [HOUR, 2000 * DAY])
    def test_a_backup_in_which_a_clock_was_set_back_has_no_duration_and_is_of_its_end(self, ahead: timedelta) -> None:
        assignment = make_assignment()
        now = database_clock()
        began, next_at = (NINE, NINE + HOUR), assignment.policy.schedule.period.next_after
        for number, (started_at, ended_at) in enumerate([began, (now + ahead, now)]):
            planning.emit_due(started_at)
            claimed = handed_on(assignment, started_at)
            settle(claimed, Succeeded(replace(COPIED.result, snapshot=f"/srv/backups/{number}")), ended_at)
        assignment.refresh_from_db()
        assert (assignment.last_backup_at, assignment.last_backup_for) == (now, 3600)
        assert assignment.next_backup_at == next_at(now)
        assert durations.known_durations() == ([], [3600])
        for ended_at, last in (now, now), (now + ahead + HOUR, NINE):
            Backup.objects.exclude(started_at=NINE).update(ended_at=ended_at)
            records.count_what_is_left(assignment, Backup.objects.all())
            assignment.refresh_from_db()
            assert assignment.last_backup_at == last

    def test_the_next_date_follows_the_period_of_the_start_in_the_zone_of_the_policy(self) -> None:
        assignment = make_assignment(make_policy(zone="Europe/Berlin"))
        saturday = datetime(2026, 3, 28, 12, tzinfo=UTC)
        planning.emit_due(saturday)
        settle(handed_on(assignment, saturday), COPIED, saturday + HOUR)
        assignment.refresh_from_db()
        # the clocks change in that night: nine in Berlin is seven
        assert assignment.next_backup_at == datetime(2026, 3, 29, 7, tzinfo=UTC)

    @pytest.mark.parametrize("late", [0, 2], ids=["ends at the trigger", "ends two hours after it"])
    def test_a_backup_that_ran_across_a_trigger_loses_no_period(self, late: int) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        claimed = handed_on(assignment, NINE + 23 * HOUR)
        emitter.emit_triggers(NINE + DAY)  # finds it running
        settle(claimed, COPIED, NINE + DAY + late * HOUR)
        following = record_of(assignment)
        assert (following.status, following.trigger_at) == (Status.READY, NINE + DAY)
        assert (following.due_day, following.expected_seconds) == ((NINE + DAY).date(), (1 + late) * 3600)

    def test_failures_are_counted_and_carried_to_the_next_period(self) -> None:
        assignment = backed_up(make_policy(), NINE - DAY, failures=1)
        planning.emit_due(NINE)
        settle(handed_on(assignment, NINE), Failed("no"), NINE)
        assert Assignment.objects.get().failures == 2
        planning.pause([assignment.source], NINE)
        planning.resume([assignment.source], NINE + HOUR)
        assert record_of(assignment).failures == 2

    @pytest.mark.parametrize("outcome", [Unavailable("it went away", 60), Released()])
    def test_neither_absence_nor_a_shutdown_is_a_failure(self, outcome: Outcome) -> None:
        assignment = make_assignment(failures=1)
        planning.emit_due(NINE)
        settle(handed_on(assignment, NINE), outcome, NINE)
        assert Assignment.objects.get().failures == 1
        assert (record_of(assignment).queue, record_of(assignment).failures) == ("availability", 1)

    def test_a_record_that_a_person_cancelled_is_not_emitted_again_before_the_next_period(self) -> None:
        make_assignment()
        planning.emit_due(NINE)
        record = claim("availability", NINE)
        cancelling.cancel([record.id], now=NINE)
        settle(record, Released(), NINE)
        assert BacklogRecord.objects.get().status == Status.CANCELLED
        assert planning.emit_due(NINE + HOUR) == 0
        assert emitter.emit_triggers(NINE + DAY) == 1

    def test_a_lost_attempt_writes_nothing(self) -> None:
        assignment = make_assignment()
        planning.emit_due(NINE)
        lost = handed_on(assignment, NINE)
        BacklogRecord.objects.update(lease_token=uuid4())  # as another claim of it
        with pytest.raises(LeaseLost):
            settle(lost, COPIED, NINE + HOUR)
        assert not Backup.objects.exists()
        assert Assignment.objects.get().last_backup_at is None


class TestBackUpNow:
    def test_a_success_out_of_its_period_moves_the_next_date_by_its_start(self) -> None:
        assignment = backed_up(make_policy(), NINE - DAY)
        Schedule.objects.update(next_trigger_at=NINE)
        planning.back_up_now([assignment], NINE - HOUR)
        settle(handed_on(assignment, NINE - HOUR), COPIED, NINE - HOUR)
        assignment.refresh_from_db()
        assert assignment.next_backup_at == NINE
        assert emitter.emit_triggers(NINE) == 1


@pytest.mark.parametrize("is_expected", [True, False], ids=["restarted", "a fault"])
def test_a_database_that_restarts_in_mid_backup_leaves_a_line_and_a_fault_its_traceback(
    is_expected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def keep(point: str, digest: str) -> None:
        if is_expected:
            raise OperationalError("terminating connection") from psycopg.errors.AdminShutdown("terminating connection")
        raise KeyError("x")

    assert not repository_orders._keep_or_log(keep, {"point": "20261121T065755Z", "digest": "d"})
    [line] = caplog.records
    assert "20261121T065755Z could not be kept" in line.message
    assert bool(line.exc_info) is not is_expected


@pytest.mark.parametrize(("answers", "most"), [(False, 8), (True, 12)])
def test_a_batch_of_questions_is_written_down_in_a_few_statements(answers: bool, most: int, sent: list[str]) -> None:
    policy = make_policy()
    asked = [make_assignment(policy) for _ in range(24)]
    planning.emit_due(NINE)
    results = [
        (record, check.handed_on(each, "it answered") if answers else Unavailable("silent", 900.0))
        for record, each in zip(claim_ready(24, planning.AVAILABILITY, NINE), asked, strict=True)
    ]
    sent.clear()
    settling.settle(results, now=NINE)
    assert len(sent) <= most, sent
    found = Decision.objects.filter(what="answered" if answers else "silent")
    assert set(found.values_list("record_id", flat=True)) == {record.id for record, _ in results}
    assert Assignment.objects.filter(last_contacted_at=NINE).count() == 24 * answers


def test_what_cannot_be_read_for_now_is_put_off_twice_without_a_failure_and_fails_the_third_time_in_a_row() -> None:
    assignment, now = make_assignment(), database_clock()
    planning.emit_due(now)
    for attempt in range(1, 9):
        claimed = handed_on(assignment, now)
        outcome = put_off(claimed, "a table stayed locked", 60) if attempt != 3 else Unavailable("it vanished", 60)
        assert isinstance(outcome, Failed if attempt == 6 else (Postponed, Unavailable)), attempt
        settle(claimed, outcome, now)
        record = BacklogRecord.objects.get()
        if attempt == 6:
            assert record.failures == 1
            assert all(each in record.last_error for each in ("a table stayed locked", "3 times in a row"))
        else:
            waits_for = (record.status, record.waiting_for, record.failures)
            assert waits_for == (Status.WAITING, WaitingFor.RECHECK, int(attempt > 6)), attempt
        now += 2 * HOUR
        tick(now)
