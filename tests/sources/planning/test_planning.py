"""Due assignments get on the backlog, once; and so do requests of users."""

import shutil
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import pytest

from jobs import window_ends
from jobs.models import BacklogRecord
from jobs.outcomes import Unavailable
from jobs.states import Status, WaitingFor
from jobs.tick import promote
from jobs.zones import utc_offsets
from schedules import cron, emitter, verbs
from schedules.models import Schedule, Trigger
from sources import planning
from sources.models import Assignment, Policy
from tests.factories import claim_ready, make_retry_policy, make_throttle
from tests.people import staff
from tests.sources.factories import (
    MONDAY,
    backed_up,
    claim,
    make_assignment,
    make_policy,
    make_source,
    record_of,
    settle,
)
from tests.sources.planning.planned import DAY, HOUR, NIGHTS, NINE, tick

pytestmark = pytest.mark.django_db


def look_for_zones_again(in_folder: Path | None = None) -> None:
    zoneinfo.reset_tzpath(to=[str(in_folder)] if in_folder else None)
    for cached in (cron._zones, cron.check_zone):
        cached.cache_clear()


class TestEmission:
    def test_a_period_emits_each_due_assignment_once(self) -> None:
        policy = make_policy()
        never, yesterday = make_assignment(policy), backed_up(policy, NINE - DAY)
        backed_up(policy, NINE + HOUR)  # due tomorrow
        assert emitter.emit_triggers(NINE + 2 * HOUR) == 2
        assert emitter.emit_triggers(NINE + 2 * HOUR) == 0
        Schedule.objects.update(next_trigger_at=None)  # a lost watermark
        assert emitter.emit_triggers(NINE + 3 * HOUR) == 0
        assert planning.emit_due(NINE + 3 * HOUR) == 0
        assert {record_of(never).trigger_at, record_of(yesterday).trigger_at} == {NINE}

    def test_a_record_carries_what_its_claim_order_needs(self) -> None:
        policy = make_policy(
            zone="Europe/Berlin", priority=7, retry_policy=make_retry_policy(), throttle=make_throttle(2)
        )
        assignment = backed_up(policy, datetime(2026, 2, 27, 12, tzinfo=UTC), seconds=321.5, failures=3)
        Assignment.objects.update(next_backup_at=datetime(2026, 2, 28, 23, 30, tzinfo=UTC))
        planning.emit_due(NINE)
        record = record_of(assignment)
        # half past eleven in the evening is already the next day in Berlin
        assert record.due_day == date(2026, 3, 1)
        assert (record.priority, record.expected_seconds, record.failures) == (7, 321.5, 3)
        assert record.retry_policy == policy.schedule.retry_policy
        assert (record.queue, record.status, record.closes_at) == ("availability", Status.READY, None)
        assert record.lane != 0
        assert record.payload == {
            "assignment": assignment.pk,
            "title": assignment.source.name,
            "source": assignment.source_id,
            "sort": assignment.source.kind,
        }

    def test_days_are_those_of_pythons_zones_also_of_one_that_the_server_does_not_know(self, tmp_path: Path) -> None:
        """As a Debian server without its package of legacy names, whose clients have them."""
        (tmp_path / "Sea").mkdir()
        shutil.copy(str(files("tzdata.zoneinfo.America") / "St_Johns"), tmp_path / "Sea" / "Atlantis")
        look_for_zones_again(in_folder=tmp_path)
        draw = Random(7)
        zones = ["Sea/Atlantis", "Europe/Berlin", "Africa/Casablanca", "Pacific/Kiritimati", "Asia/Kathmandu"]
        found = {}
        try:
            for policy in [make_policy(zone=zone) for zone in zones]:
                changes = [since for since, _ in utc_offsets(policy.schedule.zone, NINE) if since]
                for near in [NINE, *changes[-8:]]:
                    due = near + timedelta(seconds=draw.randint(-90_000, 0))
                    found[make_assignment(policy, last_backup_at=due - DAY, next_backup_at=due)] = due
            planning.emit_due(NINE)
            for assignment, due in found.items():
                zone = assignment.policy.schedule.zone
                assert record_of(assignment).due_day == due.astimezone(ZoneInfo(zone)).date(), (zone, due)
            for policy in Policy.objects.all():
                planning.replan(policy, NINE)
            for assignment in found:
                assignment.refresh_from_db()
                due = min(assignment.next_backup_at or NINE, NINE)
                zone = ZoneInfo(assignment.policy.schedule.zone)
                assert record_of(assignment).due_day == due.astimezone(zone).date(), "nor does an edit ask the server"
        finally:
            look_for_zones_again()

    @pytest.mark.parametrize(
        ("failures", "rank_day"),
        [(0, date(2026, 3, 1)), (1, date(2026, 3, 3)), (3, date(2026, 3, 5)), (99, date(2026, 3, 9))],
    )
    def test_what_failed_at_last_is_not_put_first_by_a_new_period(self, failures: int, rank_day: date) -> None:
        first_failure_at = NINE - 30 * HOUR if failures else None
        facts = {"failures": failures, "first_failure_at": first_failure_at}
        assignment = backed_up(make_policy(), datetime(2026, 2, 28, 12, tzinfo=UTC), seconds=1, **facts)
        Assignment.objects.update(next_backup_at=datetime(2026, 3, 1, 9, tzinfo=UTC))
        planning.emit_due(NINE)
        record = record_of(assignment)
        assert (record.due_day, record.rank_day) == (date(2026, 3, 1), rank_day)
        assert (record.failures, record.first_failure_at) == (failures, first_failure_at)
        never = make_assignment(failures=failures)  # nor is what always failed
        planning.emit_due(NINE, [never.pk])
        ranked = date(2026, 3, 2) + min(failures, 7) * DAY if failures else None
        assert (record_of(never).due_day, record_of(never).rank_day) == (None, ranked)

    def test_a_series_that_an_older_worker_ended_without_its_beginning_stops_no_emission(self) -> None:
        policy = make_policy()
        assignment, _ = make_assignment(policy), make_assignment(policy)
        Assignment.objects.filter(pk=assignment.pk).update(failures=0, first_failure_at=NINE)
        assert planning.emit_due(NINE) == 2
        assert record_of(assignment).first_failure_at is None
        BacklogRecord.objects.all().delete()
        assignment.refresh_from_db()
        assert planning.back_up_now([assignment], NINE) == 1

    def test_ids_follow_the_order_of_the_assignments(self) -> None:
        policies = [make_policy(), make_policy()]
        assignments = [make_assignment(policies[number % 2]) for number in range(6)]
        planning.emit_due(NINE)
        in_order = BacklogRecord.objects.order_by("pk").values_list("subject", flat=True)
        assert list(in_order) == [planning.subject_of(assignment.pk) for assignment in assignments]

    def test_neither_paused_sources_nor_disabled_policies_are_emitted(self) -> None:
        make_assignment(source=make_source(paused_at=MONDAY))
        make_assignment(make_policy(enabled=False))
        assert planning.emit_due(NINE) == emitter.emit_triggers(NINE) == 0

    def test_a_new_source_in_mid_period_does_not_wait_for_the_next(self) -> None:
        policy = make_policy()
        emitter.emit_triggers(NINE + 2 * HOUR)
        new, _ = make_assignment(policy), make_assignment(policy)
        assert planning.emit_due(NINE + 5 * HOUR, []) == 0
        assert planning.emit_due(NINE + 5 * HOUR, [new.pk]) == 1
        assert record_of(new).trigger_at == NINE
        # the next period finds it on the backlog still
        assert emitter.emit_triggers(NINE + DAY) == 1

    def test_many_periods_of_many_policies_are_one_statement(self, django_assert_max_num_queries) -> None:  # type: ignore[no-untyped-def]
        for _ in range(20):
            policy = make_policy(seeding_limit=3, throttle=make_throttle(5))
            planning.limit_seeding(policy)
            make_assignment(policy)
        with django_assert_max_num_queries(18):
            assert emitter.emit_triggers(NINE) == 20


class TestWindows:
    def test_outside_its_window_a_record_waits_for_the_next_opening(self) -> None:
        assignment = make_assignment(make_policy(window=NIGHTS))
        planning.emit_due(NINE)
        record = record_of(assignment)
        assert (record.status, record.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
        assert (record.run_after, record.closes_at) == (MONDAY + 22 * HOUR, MONDAY + 30 * HOUR)
        assert promote(MONDAY + 22 * HOUR) == 1
        assert claim("availability", MONDAY + 22 * HOUR).id == record.pk

    def test_inside_its_window_a_record_is_ready_until_it_closes(self) -> None:
        assignment = make_assignment(make_policy(window=NIGHTS))
        planning.emit_due(MONDAY + 23 * HOUR)
        record = record_of(assignment)
        closes_at = MONDAY + 30 * HOUR
        assert (record.status, record.closes_at) == (Status.READY, closes_at)
        assert claim_ready(1, "availability", closes_at) == []
        assert window_ends.close_windows(closes_at) == 1
        record = record_of(assignment)
        assert (record.status, record.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
        assert (record.run_after, record.closes_at) == (MONDAY + 46 * HOUR, MONDAY + 54 * HOUR)

    def test_a_recheck_that_ends_after_the_window_waits_for_the_next_opening(self) -> None:
        assignment = make_assignment(make_policy(window=NIGHTS))
        planning.emit_due(MONDAY + 29 * HOUR)
        settle(claim("availability", MONDAY + 29 * HOUR), Unavailable("silent", 7200), MONDAY + 29 * HOUR)
        tick(MONDAY + 31 * HOUR)
        record = record_of(assignment)
        assert (record.waiting_for, record.run_after) == (WaitingFor.WINDOW, MONDAY + 46 * HOUR)


def test_a_policy_whose_window_cannot_be_read_runs_nothing_and_the_others_go_on(caplog) -> None:
    """It was written past the forms."""
    broken, good = make_assignment(), make_assignment()
    Policy.objects.filter(pk=broken.policy_id).update(window=[{"start": "25:00", "end": "06:00"}])
    assert emitter.emit_triggers(NINE) == 2
    assert record_of(good).status == Status.READY
    assert (record_of(broken).status, record_of(broken).waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
    assert "'25:00' is not a time of day" in caplog.text
    tick(NINE + HOUR)
    assert (record_of(broken).status, record_of(broken).run_after) == (Status.WAITING, NINE + 2 * HOUR)


def test_a_trigger_of_its_schedule_by_itself_is_refused_with_the_name_of_the_policy() -> None:
    policy = make_assignment().policy
    with pytest.raises(ValueError, match=f"the schedule of the policy {policy}"):
        verbs.trigger_now(policy.schedule, "bob")
    operator = staff("change_backlogrecord", "view_schedule")
    answer = operator.post(f"/api/schedules/{policy.schedule_id}/trigger", content_type="application/json")
    assert answer.status_code == 409
    assert not Trigger.objects.exists()
    assert not BacklogRecord.objects.exists()
