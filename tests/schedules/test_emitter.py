"""The tick: triggers become records, once; what waits is promoted; what closed is put off."""

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError

from jobs import rescuing, tick, window_ends
from jobs.clock import database_clock
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from schedules import emitter, providers
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule, make_worker
from tests.threads import another_connection, at_once, impatience

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("kind_of_tests")]

NINE = NOON.replace(hour=9)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


@pytest.fixture
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    monkeypatch.setattr(providers, "known", dict(providers.known))
    return registry


@pytest.fixture
def emitted(own_registry):
    """Provider `test`: one record per trigger. The triggers that it was asked for, as (schedule name, instant)."""
    asked: list[tuple[str, datetime]] = []

    def emit(triggers, now):
        for schedule, trigger_at in triggers:
            asked.append((schedule.name, trigger_at))
            make_record(origin=schedule, trigger_at=trigger_at, subject=f"{schedule.name} {trigger_at}")
        return len(triggers)

    providers.add_provider("test", emit)
    return asked


class TestTriggers:
    def test_come_at_their_instant_and_not_before_and_of_a_new_schedule_with_its_present_period(self, emitted):
        make_schedule(name="known", next_trigger_at=NINE)
        assert emitter.emit_triggers(NINE - timedelta(microseconds=1)) == 0
        assert emitter.emit_triggers(NINE) == 1
        make_schedule(name="new")
        assert emitter.emit_triggers(NOON) == 1
        assert emitted == [("known", NINE), ("new", NINE)]
        assert set(Schedule.objects.values_list("next_trigger_at", flat=True)) == {NINE + DAY}

    def test_what_a_provider_left_half_done_when_it_raised_is_undone_and_done_a_minute_later(self, emitted):
        half_done = providers.known["test"]

        def fail(triggers, now):
            half_done(triggers, now)
            raise RuntimeError("half done")

        providers.add_provider("test", fail)
        make_schedule(name="daily", next_trigger_at=NINE)
        assert emitter.emit_triggers(NOON) == 0
        assert not BacklogRecord.objects.exists()
        providers.add_provider("test", half_done)
        assert emitter.emit_triggers(NOON + timedelta(minutes=1)) == 1
        assert emitted[-1] == ("daily", NINE)

    def test_any_number_of_triggers_of_a_provider_are_one_call_and_a_row_each(self, own_registry):
        calls = []
        providers.add_provider("test", lambda triggers, now: calls.append(len(triggers)) or 0)
        for _ in range(30):
            make_schedule(next_trigger_at=NINE)
        emitter.emit_triggers(NOON)
        assert calls == [30]
        assert Trigger.objects.filter(trigger_at=NINE, emitted_at=NOON, finished_at=NOON, events=0).count() == 30

    def test_a_provider_is_asked_again_for_a_trigger_whose_watermark_was_lost(self, emitted):
        schedule = make_schedule(name="daily", next_trigger_at=NINE)
        emitter.emit_triggers(NOON)
        BacklogRecord.objects.all().delete()
        Schedule.objects.update(next_trigger_at=None)
        assert emitter.emit_triggers(NOON) == 1
        trigger = Trigger.objects.get(schedule=schedule)
        assert (trigger.trigger_at, trigger.events, trigger.emitted_at) == (NINE, 1, NOON)

    def test_go_on_within_minutes_after_a_clock_that_was_ahead(self, emitted):
        """It was set forward by a year and back again, while the workers worked on."""
        schedule = make_schedule(name="daily", next_trigger_at=NINE)
        emitter.emit_triggers(NINE + 365 * DAY)
        schedule.refresh_from_db()
        assert schedule.next_trigger_at == NINE + 366 * DAY
        assert emitter.correct_watermarks(NINE - SECOND) == 1
        assert emitter.emit_triggers(NINE) == 1
        assert emitter.correct_watermarks in registry.rare

    def test_that_come_between_a_look_at_the_clock_and_one_at_the_watermark_are_no_such_thing(self, emitted):
        make_schedule(name="daily", next_trigger_at=NINE)
        asked_at = NINE - SECOND
        emitter.emit_triggers(NINE)
        assert emitter.correct_watermarks(asked_at) == 0

    def test_the_indexes_stand_behind_it(self):
        schedule = make_schedule()
        make_record(Status.SUCCEEDED, subject="a", origin=schedule, trigger_at=NINE)
        with pytest.raises(IntegrityError, match="one_record_per_trigger_and_subject"):
            make_record(subject="a", origin=schedule, trigger_at=NINE)
        make_record(subject="b")
        with pytest.raises(IntegrityError, match="one_unfinished_record_per_subject"):
            make_record(Status.WAITING, subject="b")


class TestPromotion:
    def test_moves_what_is_due_and_only_that(self):
        due = make_record(Status.WAITING, run_after=NOON)
        not_yet = make_record(Status.WAITING, run_after=NOON + timedelta(microseconds=1))
        done = make_record(Status.SUCCEEDED, run_after=NOON)
        assert tick.promote(NOON) == 1
        assert [row.pk for row in BacklogRecord.objects.ready()] == [due.pk]
        assert BacklogRecord.objects.get(pk=due.pk).waiting_for is None
        assert BacklogRecord.objects.get(pk=not_yet.pk).status == Status.WAITING
        assert BacklogRecord.objects.get(pk=done.pk).status == Status.SUCCEEDED

    def test_at_once_on_many_hosts_moves_each_record_once(self):
        for _ in range(50):
            make_record(Status.WAITING, run_after=NOON)
        assert sum(at_once(*[lambda: tick.promote(NOON)] * 4)) == 50


class TestClosing:
    @pytest.fixture
    def windows(self, own_registry):
        """Kind `test` lives in queue `home`; its windows open an hour from now and close two hours later."""

        def next_opening(records, now):
            return {number: (now + timedelta(hours=1), now + timedelta(hours=3)) for number, _ in records}

        own_registry.add(Kind("test", home_queue="home", next_opening=next_opening))

    def test_puts_a_record_off_to_the_next_opening_in_its_home_queue_with_its_place_and_failures(self, windows):
        kept = {"rank_day": NOON.date(), "tried_at": NOON, "failures": 2, "attempt": 4, "priority": 3}
        closed = make_record(queue="backups", closes_at=NOON, exclusive_key="source:1", **kept)
        assert window_ends.close_windows(NOON) == 1
        closed.refresh_from_db()
        assert (closed.status, closed.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
        assert (closed.run_after, closed.closes_at) == (NOON + timedelta(hours=1), NOON + timedelta(hours=3))
        assert (closed.queue, closed.exclusive_key) == ("home", None)
        assert {name: getattr(closed, name) for name in kept} == kept

    def test_leaves_what_is_open_running_or_has_no_window(self, windows):
        make_record(closes_at=NOON + timedelta(microseconds=1))
        make_record()
        make_record(Status.RUNNING, closes_at=NOON)
        assert window_ends.close_windows(NOON) == 0

    def test_a_window_that_is_open_again_by_now_leaves_it_ready(self, own_registry):
        own_registry.add(Kind("test", next_opening=lambda rows, now: {n: (now, now + DAY) for n, _ in rows}))
        closed = make_record(closes_at=NOON)
        window_ends.close_windows(NOON)
        closed.refresh_from_db()
        assert (closed.status, closed.closes_at) == (Status.READY, NOON + DAY)

    def test_of_a_kind_without_another_opening_it_fails(self, own_registry):
        closed = make_record(closes_at=NOON)
        assert window_ends.close_windows(NOON) == 1
        closed.refresh_from_db()
        assert (closed.status, closed.finished_at, closed.last_error) == (Status.FAILED, NOON, "window closed")
        assert closed.failures == 0

    def test_more_than_one_batch_is_put_off(self, windows, monkeypatch):
        for _ in range(5):
            make_record(closes_at=NOON)
        monkeypatch.setattr(window_ends, "BATCH", 2)
        assert window_ends.close_windows(NOON, seconds=60) == 5


class TestTick:
    @pytest.mark.parametrize(
        ("status", "fields", "step"),
        [
            (Status.WAITING, {"run_after": NOON}, tick.promote),
            (Status.READY, {"closes_at": NOON}, window_ends.close_windows),
            (Status.RUNNING, {}, lambda now: rescuing.rescue(now=database_clock() + DAY)),
        ],
        ids=["promote", "close windows", "rescue"],
    )
    def test_no_step_waits_for_a_record_that_another_connection_holds_locked(self, status, fields, step):
        held, free = make_record(status, **fields), make_record(status, **fields)
        with another_connection() as other, impatience():
            other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [held.pk])
            assert step(NOON) == 1
        assert BacklogRecord.objects.filter(pk=held.pk).values_list("status", "attempt").get() == (status, held.attempt)
        free.refresh_from_db()
        assert (free.status, free.run_after, free.closes_at) != (status, fields.get("run_after"), NOON)

    def test_emission_does_not_wait_for_a_schedule_that_another_connection_holds_locked(self, emitted):
        held, _ = make_schedule(name="held"), make_schedule(name="free")
        with another_connection() as other, impatience():
            other.execute("SELECT FROM schedules_schedule WHERE origin_id = %s FOR UPDATE", [held.pk])
            assert emitter.emit_triggers(NOON) == 1
        assert [name for name, _ in emitted] == ["free"]

    def test_does_everything_that_is_due_once(self, emitted):
        now = database_clock() + DAY
        make_schedule()
        make_record(Status.WAITING, run_after=now)
        make_record(closes_at=now)
        make_record(Status.RUNNING, worker=make_worker(), lease_expires_at=now)
        ticked = tick.tick(now)
        assert (ticked.emitted, ticked.promoted, ticked.closed, ticked.rescued) == (1, 1, 1, 1)
        assert not any(tick.tick(now))

    def test_a_look_says_when_the_next_trigger_comes_so_that_a_worker_sleeps_no_longer(self):
        make_schedule(enabled=False, next_trigger_at=NOON)
        assert tick.look(now=NOON).seconds_until_next() == float("inf")
        assert not tick.look(now=NOON).step.is_due
        make_schedule(next_trigger_at=NOON + timedelta(seconds=0.4))
        assert tick.look(now=NOON).seconds_until_next() == pytest.approx(0.4)
        make_record(Status.WAITING, run_after=NOON + timedelta(seconds=0.3))
        assert tick.look(now=NOON).seconds_until_next() == pytest.approx(0.3)
        make_schedule(next_trigger_at=NOON)  # its first event may be due in a moment
        assert tick.look(now=NOON).seconds_until_next() == 0
