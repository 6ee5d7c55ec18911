"""What a plan is made from: rows of schedules, attempts and workers."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Max, Min
from django.test.utils import CaptureQueriesContext

from jobs import tick
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status
from schedules.models import Schedule
from schedules.plan import MINUTES
from schedules.plan_figures import gate_of, plan_of, seconds_each
from schedules.plan_preview import coming_batches
from schedules.plan_queue import FAST
from sources import previews
from tests.factories import NOON, make_record, make_worker
from tests.operations.planner.plans import SATURDAY, make_events, make_throttle
from tests.sources.factories import make_assignment, make_policy

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
THREE = SATURDAY + 3 * HOUR
"""The first trigger of `make_events` after SATURDAY."""


def delivered(
    schedule: Schedule, *seconds: float, at: Any = NOON, outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED
) -> None:
    for each in seconds:
        record = make_record(Status.SUCCEEDED, origin=schedule, trigger_at=at)
        Attempt.objects.create(
            record=record, number=1, queue="callbacks", started_at=at, ended_at=at + HOUR, outcome=outcome,
            facts={"seconds": each},
        )  # fmt: skip


class TestHowLongAnEventTakes:
    def test_is_the_median_of_what_was_measured(self) -> None:
        one, other, new = make_events(name="a"), make_events(name="b"), make_events(name="c")
        delivered(one, 0.1, 0.2, 9.0)
        delivered(other, 3.0)
        assert seconds_each([one.pk, other.pk, new.pk]) == {one.pk: 0.2, other.pk: 3.0}

    @pytest.mark.parametrize("facts", [None, {"status": 200}, {"seconds": "soon"}])
    def test_is_how_long_it_ran_where_nobody_measured(self, facts: Any) -> None:
        schedule = make_events()
        delivered(schedule, 1.0)
        Attempt.objects.update(facts=facts)
        assert seconds_each([schedule.pk]) == {schedule.pk: 3600.0}

    def test_leaves_failures_out(self) -> None:
        schedule = make_events()
        delivered(schedule, 30.0, outcome=AttemptOutcome.FAILED)
        assert seconds_each([schedule.pk]) == {}

    def test_is_that_of_the_latest_five_triggers(self) -> None:
        schedule = make_events()
        for number in range(8):
            delivered(schedule, float(number), at=NOON + number * HOUR)
        assert seconds_each([schedule.pk]) == {schedule.pk: 5.0}

    def test_a_plan_says_whether_it_was_measured(self) -> None:
        schedule = make_events()
        assert plan_of(schedule, SATURDAY).schedule.assumed
        delivered(schedule, 0.5)
        found = plan_of(schedule, SATURDAY).schedule
        assert (found.seconds_each, found.assumed) == (0.5, False)


class TestTheGate:
    def test_is_the_throttle_and_the_workers(self) -> None:
        make_worker(queues={"callbacks": 200, "backups": 16})
        make_worker(queues={"callbacks": 100})
        throttle = make_throttle(max_in_flight=50, rate=2.0)
        gate = gate_of(make_events(throttle=throttle), database_clock())
        assert (gate.in_flight, gate.rate, gate.burst, gate.places, gate.name) == (50, 2.0, 2.0, 300, "slow")
        assert gate.workers == 2

    def test_without_throttle_or_worker_one_worker_is_reckoned_with(self) -> None:
        gate = gate_of(make_events(), database_clock())
        assert (gate.is_open, gate.pace(1)) == (True, FAST)

    def test_only_workers_that_serve_its_queue_add_to_the_pace(self) -> None:
        schedule, now = make_events(), database_clock()
        for queues in ({"callbacks": 200}, {"callbacks": 200}, {"backups": 16}, {"callbacks": 0}):
            make_worker(queues=queues)
        make_worker(queues={"callbacks": 200}, stopped_at=now)
        assert gate_of(schedule, now).pace(0.0014) == 2 * FAST

    def test_workers_that_are_silent_or_have_stopped_do_not_count(self) -> None:
        schedule, now = make_events(), database_clock()
        make_worker(queues={"callbacks": 1}, heartbeat_at=now - HOUR)
        make_worker(queues={"callbacks": 2}, stopped_at=now)
        assert gate_of(schedule, now).places is None
        make_worker(queues={"callbacks": 4})
        assert gate_of(schedule, now).places == 4

    def test_a_backup_is_at_work_in_the_queue_that_its_home_queue_feeds(self) -> None:
        make_worker(queues={"availability": 200, "backups": 16})
        assert gate_of(Schedule(kind="backup"), database_clock()).places == 16


class TestThePlan:
    @pytest.mark.parametrize(("count", "window_for"), [(7, 600), (100, 3_600), (500, 90), (300, 0)])
    def test_foresees_what_is_emitted(self, count: int, window_for: int) -> None:
        stagger = "even" if window_for else "none"
        schedule = make_events(event_count=count, window_for=window_for, stagger=stagger, next_trigger_at=THREE)
        plan = plan_of(schedule, SATURDAY)
        tick.tick(now=THREE)
        found = [0.0] * MINUTES
        for run_after in BacklogRecord.objects.filter(origin=schedule).values_list("run_after", flat=True):
            found[int((run_after - SATURDAY).total_seconds()) // 60] += 1
        assert sum(found) == count
        assert found == [0.0] * 180 + plan.chosen.own[180:1440] + [0.0] * (MINUTES - 1440)
        [batch] = coming_batches(schedule, 1, now=SATURDAY)
        ends = BacklogRecord.objects.filter(origin=schedule).aggregate(first=Min("run_after"), last=Max("run_after"))
        assert (batch.first_at, batch.last_at) == (ends["first"], ends["last"])

    def test_takes_what_shares_the_throttle_and_is_enabled(self) -> None:
        throttle, other = make_throttle(), make_throttle(name="other")
        schedule = make_events(name="a", throttle=throttle)
        make_events(name="b", throttle=throttle, cron="0 9 * * *", event_count=7, stagger="none")
        make_events(name="c", throttle=other)
        make_events(name="d", throttle=throttle, enabled=False)
        make_events(name="e")
        plan = plan_of(schedule, SATURDAY)
        assert [each.name for each in plan.others] == ["b"]
        assert max(plan.bunched.others) == 7
        assert plan_of(Schedule.objects.get(name="e"), SATURDAY).others == ()

    def test_takes_a_schedule_as_it_is_edited(self) -> None:
        throttle = make_throttle()
        schedule = make_events(throttle=throttle, event_count=100)
        schedule.event_count = 5_000
        plan = plan_of(schedule, SATURDAY)
        assert (plan.bunched.peak, plan.others) == (5_000, ())
        unsaved = Schedule(name="new", cron="0 3 * * *", kind="http_callback", event_count=3, throttle=throttle)
        plan = plan_of(unsaved, SATURDAY)
        assert (plan.schedule.events, [each.name for each in plan.others]) == (3, ["nightly"])

    def test_of_a_policy_has_an_event_for_each_assignment(self) -> None:
        throttle = make_throttle()
        policy = make_policy(throttle=throttle)
        for _ in range(3):
            make_assignment(policy)
        make_assignment()
        plan = plan_of(policy.schedule, SATURDAY)
        assert (plan.schedule.events, plan.schedule.at_most) == (3, True)
        assert plan.bunched.peak == 3
        beside = plan_of(make_events(throttle=throttle, event_count=1), SATURDAY)
        assert max(beside.bunched.others) == 3
        assert previews.numbers_of_assignments([policy.schedule.pk]) == {policy.schedule.pk: 3}

    def test_is_not_spoilt_by_another_that_was_stored_past_its_form(self) -> None:
        throttle = make_throttle()
        make_events(name="b", throttle=throttle, cron="soon")
        make_events(name="c", throttle=throttle, zone="Mars/Olympus")
        assert plan_of(make_events(throttle=throttle), SATURDAY).others == ()

    @pytest.mark.parametrize("fields", [{"cron": "soon"}, {"zone": "Mars/Olympus"}])
    def test_of_a_cron_or_zone_that_cannot_be_read_is_refused(self, fields: dict[str, str]) -> None:
        with pytest.raises(ValueError, match=r"cron 'soon'|Mars/Olympus"):
            plan_of(make_events(**fields), SATURDAY)

    def test_asks_no_more_often_for_many(self) -> None:
        throttle = make_throttle()
        schedule = make_events(throttle=throttle)
        with CaptureQueriesContext(
            connection,
        ) as few:
            plan_of(schedule, SATURDAY)
        for number in range(20):
            make_events(name=f"other {number}", throttle=throttle)
        with CaptureQueriesContext(connection) as many:
            plan_of(schedule, SATURDAY)
        assert len(many) == len(few) <= 4

    def test_begins_now_by_the_clock_of_the_database(self) -> None:
        assert abs(plan_of(make_events()).start - database_clock()) < timedelta(minutes=2)
