"""The tick: triggers become records, once; what waits is promoted; what closed is put off."""

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError

from jobs import claiming, emitter
from jobs.clock import database_clock
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, Schedule
from jobs.states import Status, WaitingFor
from tests.factories import NOON, make_record, make_schedule, make_worker
from tests.threads import another_connection, at_once, impatience

pytestmark = pytest.mark.django_db(transaction=True)

NINE = NOON.replace(hour=9)
DAY = timedelta(days=1)


@pytest.fixture
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    monkeypatch.setattr(registry, "providers", dict(registry.providers))
    return registry


@pytest.fixture
def emitted(own_registry):
    """Provider `test`: one record per trigger. The triggers that it was asked for, as (schedule name, instant)."""
    asked: list[tuple[str, datetime]] = []

    def emit(triggers, now):
        for schedule, trigger_at in triggers:
            asked.append((schedule.name, trigger_at))
            make_record(schedule=schedule, trigger_at=trigger_at, subject=f"{schedule.name} {trigger_at}")
        return len(triggers)

    own_registry.add_provider("test", emit)
    return asked


class TestTriggers:
    def test_a_new_schedule_emits_the_period_that_it_begins_in(self, emitted):
        make_schedule(name="daily")
        assert emitter.emit_triggers(NOON) == 1
        assert emitted == [("daily", NINE)]
        assert Schedule.objects.get().next_trigger_at == NINE + DAY

    def test_a_trigger_is_emitted_at_its_instant_and_not_before(self, emitted):
        make_schedule(next_trigger_at=NINE)
        assert emitter.emit_triggers(NINE - timedelta(microseconds=1)) == 0
        assert emitter.emit_triggers(NINE) == 1

    def test_a_second_tick_emits_nothing_more(self, emitted):
        make_schedule()
        assert [emitter.emit_triggers(NOON) for _ in range(3)] == [1, 0, 0]

    def test_five_ticks_at_once_emit_each_trigger_once(self, emitted):
        for _ in range(6):
            make_schedule(next_trigger_at=NINE)
        assert sum(at_once(*[lambda: emitter.emit_triggers(NOON)] * 5)) == 6
        assert len(emitted) == len(set(emitted)) == 6
        assert BacklogRecord.objects.count() == 6

    def test_three_days_down_make_one_catch_up(self, emitted):
        make_schedule(name="daily", next_trigger_at=NINE)
        assert emitter.emit_triggers(NINE + 3 * DAY) == 1
        assert emitted == [("daily", NINE + 3 * DAY)]
        assert Schedule.objects.get().next_trigger_at == NINE + 4 * DAY

    def test_a_disabled_schedule_emits_nothing(self, emitted):
        make_schedule(enabled=False)
        assert emitter.emit_triggers(NOON) == 0

    def test_a_provider_that_raises_leaves_the_watermark_for_the_next_tick(self, own_registry):
        def fail(triggers, now):
            make_record()
            raise RuntimeError("half done")

        own_registry.add_provider("test", fail)
        make_schedule(next_trigger_at=NINE)
        with pytest.raises(RuntimeError, match="half done"):
            emitter.emit_triggers(NOON)
        assert Schedule.objects.get().next_trigger_at == NINE
        assert not BacklogRecord.objects.exists()

    @pytest.mark.parametrize("cron", ["61 * * * *", "0 0 30 2 *", "nonsense"])
    def test_a_schedule_with_a_cron_that_no_form_has_checked_does_not_stop_the_others(self, emitted, cron, caplog):
        make_schedule(name="broken", cron=cron, next_trigger_at=NINE)
        make_schedule(name="good", next_trigger_at=NINE)
        assert emitter.emit_triggers(NOON) == 1
        assert [name for name, _ in emitted] == ["good"]
        assert "broken" in caplog.text

    def test_the_index_stands_behind_it(self):
        schedule = make_schedule()
        make_record(Status.SUCCEEDED, subject="a", schedule=schedule, trigger_at=NINE)
        with pytest.raises(IntegrityError, match="one_record_per_trigger_and_subject"):
            make_record(subject="a", schedule=schedule, trigger_at=NINE)

    def test_an_unfinished_record_of_the_same_subject_is_refused_by_its_index(self):
        make_record(subject="a")
        with pytest.raises(IntegrityError, match="one_unfinished_record_per_subject"):
            make_record(Status.WAITING, subject="a")


class TestPromotion:
    def test_moves_what_is_due_and_only_that(self):
        due = make_record(Status.WAITING, run_after=NOON)
        not_yet = make_record(Status.WAITING, run_after=NOON + timedelta(microseconds=1))
        done = make_record(Status.SUCCEEDED, run_after=NOON)
        assert emitter.promote(NOON) == 1
        assert [row.pk for row in BacklogRecord.objects.ready()] == [due.pk]
        assert BacklogRecord.objects.get(pk=due.pk).waiting_for is None
        assert BacklogRecord.objects.get(pk=not_yet.pk).status == Status.WAITING
        assert BacklogRecord.objects.get(pk=done.pk).status == Status.SUCCEEDED

    def test_moves_more_than_one_batch(self, monkeypatch):
        for _ in range(5):
            make_record(Status.WAITING, run_after=NOON)
        monkeypatch.setattr(emitter, "BATCH", 2)
        monkeypatch.setattr(emitter, "PROMOTE", emitter.PROMOTE.replace("LIMIT 1000", "LIMIT 2"))
        assert emitter.promote(NOON) == 5

    def test_at_once_on_many_hosts_moves_each_record_once(self):
        for _ in range(50):
            make_record(Status.WAITING, run_after=NOON)
        assert sum(at_once(*[lambda: emitter.promote(NOON)] * 4)) == 50


class TestClosing:
    @pytest.fixture
    def windows(self, own_registry):
        """Kind `test` lives in queue `home`; its windows open an hour from now and close two hours later."""

        def next_opening(records, now):
            return {number: (now + timedelta(hours=1), now + timedelta(hours=3)) for number, _ in records}

        own_registry.add(Kind("test", home_queue="home", next_opening=next_opening))

    def test_puts_a_record_off_to_the_next_opening_in_its_home_queue(self, windows):
        closed = make_record(queue="backups", closes_at=NOON, exclusive_key="source:1")
        assert emitter.close_windows(NOON) == 1
        closed.refresh_from_db()
        assert (closed.status, closed.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
        assert (closed.run_after, closed.closes_at) == (NOON + timedelta(hours=1), NOON + timedelta(hours=3))
        assert (closed.queue, closed.exclusive_key) == ("home", None)

    def test_leaves_what_is_open_running_or_has_no_window(self, windows):
        make_record(closes_at=NOON + timedelta(microseconds=1))
        make_record()
        make_record(Status.RUNNING, closes_at=NOON)
        assert emitter.close_windows(NOON) == 0

    def test_keeps_the_place_and_the_failures(self, windows):
        closed = make_record(closes_at=NOON, rank_day=NOON.date(), tried_at=NOON, failures=2, attempt=4, priority=3)
        emitter.close_windows(NOON)
        closed.refresh_from_db()
        assert (closed.rank_day, closed.tried_at, closed.priority) == (NOON.date(), NOON, 3)
        assert (closed.failures, closed.attempt) == (2, 4)

    def test_a_window_that_is_open_again_by_now_leaves_it_ready(self, own_registry):
        own_registry.add(Kind("test", next_opening=lambda rows, now: {n: (now, now + DAY) for n, _ in rows}))
        closed = make_record(closes_at=NOON)
        emitter.close_windows(NOON)
        closed.refresh_from_db()
        assert (closed.status, closed.closes_at) == (Status.READY, NOON + DAY)

    def test_a_kind_without_windows_is_simply_open(self, own_registry):
        closed = make_record(kind="unknown", closes_at=NOON)
        emitter.close_windows(NOON)
        closed.refresh_from_db()
        assert (closed.status, closed.closes_at) == (Status.READY, None)

    def test_more_than_one_batch_is_put_off(self, windows, monkeypatch):
        for _ in range(5):
            make_record(closes_at=NOON)
        monkeypatch.setattr(emitter, "BATCH", 2)
        monkeypatch.setattr(emitter, "CLOSED", emitter.CLOSED.replace("LIMIT 1000", "LIMIT 2"))
        assert emitter.close_windows(NOON) == 5


class TestTick:
    @pytest.mark.parametrize(
        ("status", "fields", "step"),
        [
            (Status.WAITING, {"run_after": NOON}, emitter.promote),
            (Status.READY, {"closes_at": NOON}, emitter.close_windows),
            (Status.RUNNING, {}, lambda now: claiming.rescue(now=database_clock() + DAY)),
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
            other.execute("SELECT FROM jobs_schedule WHERE id = %s FOR UPDATE", [held.pk])
            assert emitter.emit_triggers(NOON) == 1
        assert [name for name, _ in emitted] == ["free"]

    def test_does_everything_that_is_due_once(self, emitted):
        now = database_clock() + DAY
        make_schedule()
        make_record(Status.WAITING, run_after=now)
        make_record(closes_at=now)
        make_record(Status.RUNNING, worker=make_worker(), lease_expires_at=now)
        ticked = emitter.tick(now)
        assert (ticked.emitted, ticked.promoted, ticked.closed, ticked.rescued) == (1, 1, 1, 1)
        assert not emitter.tick(now).anything

    def test_rescues_nothing_when_told_so(self):
        now = database_clock() + DAY
        make_record(Status.RUNNING, lease_expires_at=now)
        assert not emitter.tick(now, rescue=False).anything

    def test_emission_that_raises_does_not_keep_the_rest_from_moving(self, own_registry, caplog):
        def fail(triggers, now):
            raise RuntimeError("policy is broken")

        own_registry.add_provider("test", fail)
        make_schedule(next_trigger_at=NINE)
        make_record(Status.WAITING, run_after=NOON)
        assert emitter.tick(NOON, rescue=False).promoted == 1
        assert "policy is broken" in caplog.text

    def test_a_window_hook_that_raises_does_not_keep_the_rest_from_moving(self, own_registry, caplog):
        def fail(records, now):
            raise RuntimeError("window is broken")

        own_registry.add(Kind("broken", next_opening=fail))
        now = database_clock() + DAY
        make_record(kind="broken", closes_at=now)
        make_record(Status.RUNNING, lease_expires_at=now)
        assert emitter.tick(now).rescued == 1
        assert "window is broken" in caplog.text
