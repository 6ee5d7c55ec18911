"""Several emitters, in threads and in processes, with clocks that differ, and killed between any two statements: no
trigger is lost, and none is emitted twice."""

import os
import signal
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection

from jobs.models import BacklogRecord
from schedules import chunks, emitter, verbs
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_schedule
from tests.threads import another_connection, at_once, impatience
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

SCRIPT = Path(__file__).parent / "emitter_script.py"
MINUTE = timedelta(minutes=1)
EVENTS = 3
SPEED = 240
LONG = 3 * PATIENCE
"""Seconds for some dozens of processes, one after the other, or a thousand statements of several at once."""


def make_minutely(**fields: object) -> Schedule:
    values = {"cron": "* * * * *", "provider": "", "event_count": EVENTS, "catch_up_for": 86_400}
    return make_schedule(**(values | {"next_trigger_at": NOON + MINUTE} | fields))


def triggers_until(last: datetime) -> list[datetime]:
    return [NOON + minute * MINUTE for minute in range(1, (last - NOON) // MINUTE + 1)]


def check_that_each_is_there_once(schedules: list[Schedule], last: datetime) -> None:
    for schedule in schedules:
        triggers = Trigger.objects.filter(schedule=schedule).order_by("trigger_at")
        assert [trigger.trigger_at for trigger in triggers] == triggers_until(last)
        assert {trigger.events for trigger in triggers} == {EVENTS}
        assert all(trigger.emitted_at for trigger in triggers)
        assert {trigger.frozen_config for trigger in triggers} == {None}
        of_it = BacklogRecord.objects.filter(origin=schedule).order_by("trigger_at", "payload__number")
        numbers = [(record.trigger_at, record.payload["number"]) for record in of_it]
        assert numbers == [(at, number) for at in triggers_until(last) for number in range(1, EVENTS + 1)]
        assert of_it.values("subject").distinct().count() == len(numbers)


class TestInThreads:
    def test_five_emit_each_trigger_once(self, monkeypatch):
        monkeypatch.setattr(chunks, "CHUNK", 7)
        schedules = [make_minutely() for _ in range(8)]
        last = NOON + 12 * MINUTE
        at_once(*[lambda: emitter.emit_triggers(last)] * 5)
        emitter.emit_triggers(last)  # what was locked when each of them looked
        check_that_each_is_there_once(schedules, last)

    def test_two_let_only_one_batch_of_a_queue_begin(self):
        schedule = make_minutely(overlap="queue")
        for _ in range(10):
            at_once(*[lambda: emitter.emit_triggers(NOON + 5 * MINUTE)] * 2)
        assert Trigger.objects.filter(schedule=schedule, emitted_at__isnull=False).count() == 1
        assert BacklogRecord.objects.count() == EVENTS

    def test_a_trigger_by_hand_and_one_of_the_clock_in_the_same_second_are_one(self):
        schedule = make_minutely()

        def by_hand() -> None:
            try:
                verbs.trigger_now(schedule, "anna", NOON + MINUTE)
            except ValueError:
                return

        at_once(by_hand, lambda: emitter.emit_triggers(NOON + MINUTE), by_hand)
        emitter.emit_triggers(NOON + MINUTE)
        check_that_each_is_there_once([schedule], NOON + MINUTE)

    @pytest.mark.parametrize("table", ["schedules_schedule", "schedules_trigger"])
    def test_what_another_one_is_emitting_is_skipped(self, table):
        held, free = make_minutely(), make_minutely()
        for schedule in (held, free):
            Trigger.objects.create(schedule=schedule, trigger_at=NOON)
        column = "origin_id" if table == "schedules_schedule" else "schedule_id"
        with another_connection() as other, impatience():
            other.execute(f"SELECT FROM {table} WHERE {column} = %s FOR NO KEY UPDATE", [held.pk])
            assert emitter.emit_triggers(NOON) == EVENTS
        assert set(BacklogRecord.objects.values_list("origin", flat=True)) == {free.pk}

    def test_a_schedule_may_be_edited_and_used_while_its_batch_is_being_emitted(self, monkeypatch):
        """Between two chunks nothing is locked."""
        schedule = make_minutely()
        monkeypatch.setattr(chunks, "CHUNK", 1)
        emitter.emit_triggers(NOON + MINUTE, seconds=0)
        with another_connection() as other:
            other.execute("SET lock_timeout = '200ms'")
            other.execute("UPDATE jobs_origin SET priority = 3 WHERE id = %s", [schedule.pk])
            other.commit()
        emitter.emit_triggers(NOON + MINUTE)
        check_that_each_is_there_once([schedule], NOON + MINUTE)


@pytest.mark.promise
@pytest.mark.slow
class TestInProcesses:
    MINUTES = 8

    def test_each_trigger_is_emitted_once_by_four_of_which_one_is_killed_and_one_is_ahead(self, programs, tmp_path):
        schedules = [make_minutely() for _ in range(25)]
        emitters = programs.run(str(SCRIPT), "race", str(tmp_path), str(self.MINUTES * 60), str(SPEED), *"0003")
        eventually(lambda: len(list(tmp_path.glob("ready-*"))) == 4)
        (tmp_path / "starts").write_text(str(time.monotonic()))
        (tmp_path / "starts").rename(tmp_path / "go")
        eventually(lambda: BacklogRecord.objects.count() > 50)
        victim = min(int(ready.name.partition("-")[2]) for ready in tmp_path.glob("ready-*"))
        with suppress(ProcessLookupError):  # a machine that stood still let it come to its end
            os.kill(victim, signal.SIGKILL)
        assert emitters.wait(LONG) == 0, programs.log()
        check_that_each_is_there_once(schedules, NOON + self.MINUTES * MINUTE)

    def test_killed_before_any_statement_nothing_is_lost_and_nothing_doubled(self, programs):
        counted = [make_minutely(stagger="even", window_for=600)]
        provided = make_minutely(provider="script", event_count=None)
        connection.close()
        assert programs.run(str(SCRIPT), "die").wait(LONG) == 0, programs.log()
        died = int(programs.log().split()[-1])
        assert died > 25
        last = NOON + (died + 1) * MINUTE
        check_that_each_is_there_once(counted, last)
        of_provider = BacklogRecord.objects.filter(origin=provided).order_by("trigger_at")
        assert list(of_provider.values_list("trigger_at", flat=True)) == triggers_until(last)
        assert not Trigger.objects.filter(schedule=provided).exclude(events=1, emitted_at__isnull=False).exists()
