"""What is due gets on the backlog, once; and what a person asks for."""

import shutil
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction

from jobs import closing, tick
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Unavailable
from jobs.states import Status, WaitingFor
from jobs.zones import utc_offsets
from schedules import cron, emitter
from schedules.models import Schedule
from sources import planning
from sources.models import Assignment, Policy
from sources.planning import emission
from tests.factories import claim_ready, make_retry_policy, make_throttle
from tests.sources.factories import (
    MONDAY,
    backed_up,
    claim,
    make_assignment,
    make_policy,
    make_source,
    record_of,
    settle,
    unfinished,
)
from tests.threads import another_connection, at_once

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NINE = MONDAY + 9 * HOUR
NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


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
        assert planning.emit_due(NINE) == 0
        assert emitter.emit_triggers(NINE) == 0

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
        assert tick.promote(MONDAY + 22 * HOUR) == 1
        assert claim("availability", MONDAY + 22 * HOUR).id == record.pk

    def test_inside_its_window_a_record_is_ready_until_it_closes(self) -> None:
        assignment = make_assignment(make_policy(window=NIGHTS))
        planning.emit_due(MONDAY + 23 * HOUR)
        record = record_of(assignment)
        closes_at = MONDAY + 30 * HOUR
        assert (record.status, record.closes_at) == (Status.READY, closes_at)
        assert claim_ready(1, "availability", closes_at) == []
        assert closing.close_windows(closes_at) == 1
        record = record_of(assignment)
        assert (record.status, record.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
        assert (record.run_after, record.closes_at) == (MONDAY + 46 * HOUR, MONDAY + 54 * HOUR)

    def test_a_recheck_that_ends_after_the_window_waits_for_the_next_opening(self) -> None:
        assignment = make_assignment(make_policy(window=NIGHTS))
        planning.emit_due(MONDAY + 29 * HOUR)
        settle(claim("availability", MONDAY + 29 * HOUR), Unavailable("silent", 7200), MONDAY + 29 * HOUR)
        tick.tick(MONDAY + 31 * HOUR, rescue=False)
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
    tick.tick(NINE + HOUR, rescue=False)
    assert (record_of(broken).status, record_of(broken).run_after) == (Status.WAITING, NINE + 2 * HOUR)


def edited(policy: Policy, now: datetime, **fields: object) -> None:
    """An edit that is planned anew; fields of its schedule, too."""
    for name, value in fields.items():
        row = policy.schedule if name in ("cron", "zone", "enabled") else policy
        setattr(row, name, value)
        row.save()
    planning.replan(policy, now)


class TestReplan:
    def test_next_backup_dates_follow_the_new_period_from_the_last_start(self) -> None:
        policy = make_policy()
        assignment = backed_up(policy, NINE)
        edited(policy, NINE + HOUR, cron="0 */6 * * *")
        assignment.refresh_from_db()
        assert assignment.next_backup_at == MONDAY + 12 * HOUR
        assert emitter.emit_triggers(MONDAY + 13 * HOUR) == 1

    def test_what_is_ready_waits_for_a_new_window_and_goes_on_when_it_is_lifted(self) -> None:
        policy = make_policy()
        assignment = make_assignment(policy)
        planning.emit_due(NINE)
        edited(policy, NINE + HOUR, window=NIGHTS)
        assert claim_ready(1, "availability", NINE + HOUR) == []
        tick.tick(NINE + HOUR, rescue=False)
        record = record_of(assignment)
        assert (record.status, record.run_after) == (Status.WAITING, MONDAY + 22 * HOUR)
        edited(policy, NINE + 2 * HOUR, window=[])
        tick.tick(NINE + 2 * HOUR, rescue=False)
        record = record_of(assignment)
        assert (record.status, record.closes_at) == (Status.READY, None)

    def test_a_record_that_waits_for_a_recheck_is_kept_to_the_new_window(self) -> None:
        policy = make_policy()
        assignment = make_assignment(policy)
        planning.emit_due(NINE)
        settle(claim("availability", NINE), Unavailable("silent", 900), NINE)
        edited(policy, NINE + timedelta(minutes=1), window=NIGHTS)
        assert record_of(assignment).waiting_for == WaitingFor.RECHECK
        tick.tick(NINE + HOUR, rescue=False)
        assert record_of(assignment).run_after == MONDAY + 22 * HOUR

    def test_a_disabled_policy_leaves_the_backlog_and_comes_back_in_the_same_period(self) -> None:
        policy = make_policy(retry_policy=make_retry_policy(algorithm="progressive"))
        assignment, asked = make_assignment(policy), make_assignment(policy)
        planning.back_up_now([asked], NINE)
        settle(claim("availability", NINE), Failed("refused"), NINE)
        planning.emit_due(NINE)
        for enabled, left in ((False, 0), (True, 2)):
            edited(policy, NINE + HOUR, enabled=enabled)
            tick.tick(NINE + HOUR, rescue=False)
            assert unfinished() == left
        assert record_of(assignment).trigger_at == NINE

    def test_what_is_not_due_any_more_is_taken_off_and_may_be_emitted_again(self) -> None:
        policy = make_policy()
        assignment = backed_up(policy, NINE - DAY)
        planning.emit_due(NINE)
        edited(policy, NINE, cron="0 9 1 * *")
        assert not BacklogRecord.objects.unfinished().exists()
        edited(policy, NINE, cron="0 9 * * *")
        tick.tick(NINE, rescue=False)
        assert record_of(assignment).status == Status.READY

    def test_another_zone_moves_the_day_buckets_of_what_is_on_the_backlog(self) -> None:
        policy = make_policy(cron="0 3 * * *")
        late_on_saturday = MONDAY - timedelta(minutes=24 * 60 + 30)
        assignment, tried = backed_up(policy, late_on_saturday), backed_up(policy, late_on_saturday)
        planning.emit_due(MONDAY)
        sunday, tuesday = (MONDAY - DAY).date(), (MONDAY + DAY).date()
        BacklogRecord.objects.filter(pk=record_of(tried).pk).update(rank_day=tuesday, tried_at=MONDAY)
        assert record_of(assignment).due_day == sunday
        edited(policy, MONDAY, zone="Asia/Tokyo")
        assert [record_of(one).due_day for one in (assignment, tried)] == [MONDAY.date()] * 2
        assert [record_of(one).rank_day for one in (assignment, tried)] == [MONDAY.date(), tuesday]


@pytest.mark.django_db(transaction=True)
def test_five_emitters_at_once_emit_each_assignment_once() -> None:
    policies = [make_policy() for _ in range(3)]
    for number in range(60):
        make_assignment(policies[number % 3])
    emissions = [lambda: planning.emit_due(NINE)] * 3 + [lambda: emitter.emit_triggers(NINE)] * 2
    assert sum(at_once(*emissions)) == 60 == unfinished()


class TestAClockThatWasWrong:
    """It ran a year ahead for a while and was set back."""

    YEAR = timedelta(days=365)

    def test_a_last_backup_in_the_future_is_no_reason_to_wait_but_seconds_of_correction_are_no_such_thing(self) -> None:
        assignment = backed_up(make_policy(), NINE + self.YEAR)
        backed_up(make_policy(), NINE + timedelta(seconds=5))
        assert planning.emit_due(NINE) == 1
        record = record_of(assignment)
        assert (record.status, record.due_day) == (Status.READY, MONDAY.date())

    def test_the_next_backup_date_is_that_of_the_present(self) -> None:
        policy = make_policy()
        assignment = backed_up(policy, NINE + self.YEAR)
        planning.replan(policy, NINE)
        assignment.refresh_from_db()
        assert assignment.next_backup_at == NINE + DAY

    @pytest.mark.django_db(transaction=True)
    def test_looking_for_watermarks_in_the_future_locks_none_that_is_right(self) -> None:
        schedule = make_policy(next_trigger_at=NINE + DAY).schedule
        with another_connection() as other, transaction.atomic():
            assert emitter.correct_watermarks(NINE + HOUR) == 0
            other.execute("SELECT FROM schedules_schedule WHERE origin_id = %s FOR UPDATE NOWAIT", [schedule.pk])

    def test_a_watermark_in_the_future_comes_back_to_the_next_trigger(self) -> None:
        far, near = make_policy(next_trigger_at=NINE + self.YEAR), make_policy(next_trigger_at=NINE + DAY)
        for number, wrong in enumerate(({"cron": "nonsense"}, {"zone": "Nowhere"})):
            Schedule.objects.create(
                name=f"wrong {number}", kind="test", event_count=1, next_trigger_at=NINE + DAY,
                **({"cron": "0 9 * * *"} | wrong),
            )  # fmt: skip
        make_assignment(far)
        assert emitter.emit_triggers(NINE + HOUR) == 0
        assert emitter.correct_watermarks(NINE + HOUR) == 1
        assert set(Schedule.objects.values_list("next_trigger_at", flat=True)) == {NINE + DAY}
        assert emitter.emit_triggers(near.schedule.next_trigger_at) == 1


class TestCatchingUpInTheMinutesRound:
    def test_goes_on_at_the_policy_that_the_last_round_had_no_time_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(emission, "AT_ONCE", 1)
        monkeypatch.setattr(emission, "_first", 0)
        for _ in range(3):
            make_assignment()
        never_emitted = make_assignment()  # its record of this period failed: it stays due, and its turn comes again
        planning.emit_due(NINE, [never_emitted.pk])
        BacklogRecord.objects.update(status=Status.FAILED, finished_at=NINE)
        assert sorted(planning.catch_up(NINE, seconds=0) for _ in range(4)) == [0, 1, 1, 1]

    def test_a_policy_that_cannot_be_read_holds_up_no_other(self) -> None:
        bad, good = make_assignment(), make_assignment()
        Schedule.objects.filter(pk=bad.policy.schedule_id).update(cron="nonsense")
        assert planning.catch_up(NINE) == 1
        assert record_of(good).status == Status.READY

    def test_reads_no_policy_of_which_nothing_is_due(self, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
        for _ in range(3):
            make_assignment()
        assert planning.catch_up(NINE) == 3
        with django_assert_num_queries(0):  # but for the one that is not Django's
            assert planning.catch_up(NINE) == 0
