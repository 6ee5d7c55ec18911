"""The work of a tick before the next claim is bounded, however much is due."""

from datetime import timedelta

import pytest
from django.db import connection, transaction

from jobs import tick
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord
from jobs.states import Status
from schedules import emitter, triggers
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule
from tests.yardstick import of_a_processor

pytestmark = pytest.mark.django_db

MINUTE, WEEK = timedelta(minutes=1), timedelta(days=7)
INTENTS = """
INSERT INTO schedules_trigger (schedule_id, trigger_at, events, skipped_for, asked_by)
SELECT %(schedule)s, %(noon)s - minute * interval '1 minute', 0, '', '' FROM generate_series(1, 3000) AS minute
"""
RECORDS = """
INSERT INTO jobs_backlogrecord (kind, queue, subject, origin_id, trigger_at, run_after)
SELECT 'event', 'q', number, %(origin)s, %(noon)s, %(noon)s FROM generate_series(1, 1000) AS number
"""


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "kinds", {**registry.kinds, "event": Kind("event", home_queue="callbacks")})


def make_schedules(count: int, **fields: object) -> list[Schedule]:
    usual = {"kind": "event", "event_count": 1, "cron": "*/5 * * * *", "zone": "Europe/Berlin"}
    return [Schedule.objects.create(name=f"one of many {number}", **(usual | fields)) for number in range(count)]


class TestCatchingUp:
    def test_after_a_week_costs_no_count_of_what_was_missed(self) -> None:
        make_schedules(60, next_trigger_at=NOON - WEEK)
        with of_a_processor(seconds=0.5):  # counting 2,016 triggers takes 30 ms a schedule
            assert emitter.emit_triggers(NOON) == 60

    def test_stops_within_its_budget_and_begins_with_what_is_on_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(triggers, "SCHEDULES_A_TRANSACTION", 10)
        make_schedules(25, next_trigger_at=NOON - WEEK)
        on_time = make_schedule(
            name="on time", provider="", kind="event", event_count=1, cron="0 12 * * *", next_trigger_at=NOON
        )
        assert triggers.record_due_triggers(NOON, seconds=0) < 25
        assert Trigger.objects.filter(schedule=on_time).exists()

    def test_writes_down_no_more_than_a_tick_can_emit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(triggers, "INTENTS_A_TRANSACTION", 150)
        monkeypatch.setattr(triggers, "INTENTS_AT_ONCE", 300)
        make_schedules(6, next_trigger_at=NOON - WEEK, catch_up_for=7 * 86_400)
        assert triggers.record_due_triggers(NOON) <= 500


class TestPromoting:
    def test_a_tick_takes_on_what_it_has_time_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tick, "PROMOTE", tick.PROMOTE.replace("LIMIT 1000", "LIMIT 2"))
        monkeypatch.setattr(tick, "BATCH", 2)
        for _ in range(5):
            make_record(Status.WAITING, run_after=NOON)
        assert tick.promote(NOON, seconds=0) == 2
        assert tick.promote(NOON, seconds=60) == 3


class TestAQueueOfTriggers:
    def queue(self, **fields: object) -> Schedule:
        """A schedule with a batch under way for a week, whose one record has not begun."""
        fields = {"overlap": "queue", "next_trigger_at": NOON, "cron": "* * * * *"} | fields
        [schedule] = make_schedules(1, **fields)
        begun = Trigger.objects.create(schedule=schedule, trigger_at=NOON - WEEK, emitted_at=NOON - WEEK, events=1)
        make_record(origin=schedule, trigger_at=begun.trigger_at)
        return schedule

    def waiting(self) -> list[Trigger]:
        return list(Trigger.objects.filter(emitted_at=None, finished_at=None).order_by("trigger_at"))

    def test_holds_the_latest_up_to_a_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(triggers, "LONGEST_QUEUE", 10)
        schedule = self.queue()
        by_hand = Trigger.objects.create(schedule=schedule, trigger_at=NOON - 2 * WEEK, asked_by="bob")
        for minute in range(20):
            emitter.emit_triggers(NOON + minute * MINUTE)
        first, *others = self.waiting()
        assert first == by_hand
        assert [each.trigger_at for each in others] == [NOON + minute * MINUTE for minute in range(10, 20)]
        skipped = set(Trigger.objects.exclude(skipped_for="").values_list("skipped_for", flat=True))
        assert skipped == {"10 later ones wait for an earlier batch to end"}
        BacklogRecord.objects.update(status=Status.SUCCEEDED, finished_at=NOON)
        emitter.emit_triggers(NOON + 19 * MINUTE)
        assert by_hand not in self.waiting()

    def test_that_is_long_is_not_locked_and_read_by_each_tick(self) -> None:
        schedule = self.queue(catch_up_for=30 * 86_400, next_trigger_at=NOON + WEEK)
        with connection.cursor() as cursor:
            cursor.execute(INTENTS, {"schedule": schedule.pk, "noon": NOON})
        with of_a_processor(seconds=0.05):
            assert emitter.emit_triggers(NOON) == 0


class TestRemovingASchedule:
    @pytest.mark.django_db(transaction=True)
    def test_reads_none_of_the_records_of_others(self) -> None:
        other, schedule = make_schedules(2)
        mine = make_record(origin=schedule)  # asked for by hand: it has no trigger
        with connection.cursor() as cursor:
            cursor.execute(RECORDS, {"origin": other.pk, "noon": NOON})

            def scans() -> int:
                """Also of earlier transactions of this session, until the server has collected them."""
                cursor.execute("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'jobs_backlogrecord'")
                return cursor.fetchone()[0]

            cursor.execute("ANALYZE jobs_backlogrecord")
            with transaction.atomic():
                before = scans()
                schedule.delete()
                assert scans() == before
        mine.refresh_from_db()
        assert mine.origin_id is None
