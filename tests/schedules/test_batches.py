"""The progress of a batch, its end, its late events, and for how long its trigger is kept."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import tick
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, Decision
from jobs.states import Status, WaitingFor
from schedules import batches, emitter
from schedules.batches import BatchCounts
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kind_of_tests")]

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def emit_batch(count: int = 3, **fields: object) -> Trigger:
    """A batch that was emitted at noon."""
    values = {"cron": "0 12 * * *", "provider": "", "event_count": count, "next_trigger_at": NOON}
    schedule = make_schedule(**(values | fields))
    emitter.emit_triggers(NOON)
    return Trigger.objects.get(schedule=schedule)


def end(records: "list[int] | None" = None) -> None:
    ended = BacklogRecord.objects.unfinished()
    if records is not None:
        ended = ended.filter(pk__in=records)
    ended.update(status=Status.SUCCEEDED, finished_at=NOON, waiting_for=None)


def finished_at(trigger: Trigger) -> object:
    trigger.refresh_from_db()
    return trigger.finished_at


class TestProgress:
    def test_is_told_by_status_for_any_number_of_batches_in_one_question(self):
        first, second = emit_batch(6), emit_batch(2)
        ids = list(BacklogRecord.objects.filter(origin=first.schedule).order_by("pk").values_list("pk", flat=True))
        rows = BacklogRecord.objects.filter
        rows(pk=ids[0]).update(status=Status.WAITING, waiting_for=WaitingFor.BACKOFF)
        rows(pk=ids[2]).update(status=Status.SUCCEEDED, finished_at=NOON)
        rows(pk=ids[3]).update(status=Status.FAILED, finished_at=NOON)
        rows(pk=ids[4]).update(status=Status.CANCELLED, finished_at=NOON)
        make_record(Status.RUNNING, worker=make_worker(), origin=first.schedule, trigger_at=NOON, subject="running")
        rows(pk=ids[5]).delete()
        assert batches.progress([first, second]) == {
            first.pk: BatchCounts(6, waiting=1, ready=1, running=1, succeeded=1, failed=1, cancelled=1),
            second.pk: BatchCounts(2, ready=2),
        }

    def test_of_one_that_emitted_nothing_is_nothing(self):
        trigger = Trigger.objects.create(schedule=make_schedule(), trigger_at=NOON)
        assert batches.progress([trigger]) == {trigger.pk: BatchCounts(0)}
        assert batches.progress([]) == {}


class TestTheEndOfABatch:
    def test_is_noted_when_the_last_record_has_ended(self):
        trigger = emit_batch(3)
        ids = list(BacklogRecord.objects.order_by("pk").values_list("pk", flat=True))
        for record_id in ids:
            assert batches.keep(NOON + SECOND) == 0
            assert finished_at(trigger) is None
            end([record_id])
        assert batches.keep(NOON + MINUTE) == 1
        assert finished_at(trigger) == NOON + MINUTE
        assert batches.keep(NOON + HOUR) == 0

    def test_is_not_noted_while_it_is_being_emitted_and_says_nothing_about_another(self):
        ended, going_on, emitting = emit_batch(2), emit_batch(2), emit_batch(3)
        Trigger.objects.filter(pk=emitting.pk).update(emitted_at=None)
        end(list(BacklogRecord.objects.exclude(origin=going_on.schedule).values_list("pk", flat=True)))
        assert batches.keep(NOON + MINUTE) == 1
        assert finished_at(ended)
        assert (finished_at(going_on), finished_at(emitting)) == (None, None)

    def test_is_not_searched_for_while_the_witness_is_unfinished(self, monkeypatch):
        trigger = emit_batch(3)
        batches.keep(NOON)
        searched = []
        real = batches.execute

        def execute(sql, values):
            searched.append(sql)
            return real(sql, values)

        monkeypatch.setattr(batches, "execute", execute)
        batches.keep(NOON)
        assert searched == [batches.STILL_UNFINISHED]
        end([batches._witnesses[trigger.pk]])
        batches.keep(NOON)
        assert batches.FIND_WITNESSES in searched
        assert finished_at(trigger) is None

    def test_is_found_for_all_in_a_few_statements(self):
        for _ in range(20):
            emit_batch(1)
        end()
        with CaptureQueriesContext(connection) as asked:
            assert batches.finish_ended(NOON) == 20
        assert len(asked) <= 2


class TestWhatComesTooLate:
    @pytest.fixture
    def retried(self) -> BacklogRecord:
        """Two events of a batch that drops late ones: the one that waits for its retry beyond the close."""
        emit_batch(2, window_for=3600, late="drop", name="daily")
        retried = BacklogRecord.objects.order_by("pk")[0]
        values = {"status": Status.WAITING, "waiting_for": WaitingFor.BACKOFF, "run_after": NOON + 5 * HOUR}
        BacklogRecord.objects.filter(pk=retried.pk).update(
            **values, failures=1, first_failure_at=NOON, last_failure_at=NOON
        )
        return retried

    def test_is_dropped_when_its_window_closes_also_from_a_backoff_which_ends_its_batch(self, retried):
        Schedule.objects.update(late="deliver")  # it keeps to what it was begun with
        end([record.pk for record in BacklogRecord.objects.ready()])
        assert batches.drop_late(NOON + HOUR - SECOND) == 0
        assert batches.keep(NOON + HOUR) == 2
        retried.refresh_from_db()
        assert (retried.status, retried.last_error, retried.waiting_for) == (Status.FAILED, "window closed", None)
        assert (retried.finished_at, retried.failures) == (NOON + HOUR, 1)
        text = "daily, trigger of 2026-03-02 12:00:00 UTC: dropped 1 that were still waiting: window closed"
        assert Decision.objects.get(what="dropped").text == text
        assert Trigger.objects.get().finished_at == NOON + HOUR

    @pytest.mark.parametrize(("late", "closed"), [("drop", 2), ("deliver", 0)])
    def test_is_dropped_by_a_tick_if_it_is_ready_and_its_schedule_says_so(self, late, closed):
        emit_batch(2, window_for=3600, late=late)
        assert tick.tick(NOON + HOUR, rescue=False).closed == closed
        assert batches.drop_late(NOON + 2 * HOUR) == 0
        assert BacklogRecord.objects.ready().count() == 2 - closed
        assert BacklogRecord.objects.filter(status=Status.FAILED, last_error="window closed").count() == closed

    def test_of_a_kind_with_another_opening_waits_for_that(self, monkeypatch, retried):
        kinds = {"test": Kind("test", next_opening=lambda records, now: {})}
        monkeypatch.setattr(registry, "kinds", kinds)
        assert batches.drop_late(NOON + HOUR) == 0

    def test_running_may_end(self, retried):
        BacklogRecord.objects.all().delete()
        make_record(Status.RUNNING, origin=Schedule.objects.get(), trigger_at=NOON, closes_at=NOON + HOUR)
        assert batches.keep(NOON + HOUR) == 0

    def test_more_than_fits_into_one_statement_is_dropped(self, monkeypatch):
        monkeypatch.setattr(batches, "AT_ONCE", 2)
        emit_batch(5, pk=1, window_for=3600, late="drop", stagger="even")  # none of its events starts at once
        assert batches.drop_late(NOON + HOUR, seconds=60) == 5


class TestRetention:
    def test_deletes_triggers_whose_batch_ended_long_ago(self, monkeypatch):
        monkeypatch.setattr(batches, "AT_ONCE", 2)
        schedule = make_schedule()
        for day in range(5):
            at = NOON + day * DAY
            Trigger.objects.create(schedule=schedule, trigger_at=at, emitted_at=at, finished_at=at)
        unfinished = Trigger.objects.create(schedule=schedule, trigger_at=NOON - DAY, emitted_at=NOON)
        assert batches.prune(NOON + 3 * DAY) == 3
        assert Trigger.objects.filter(pk=unfinished.pk).exists()
        assert Trigger.objects.count() == 3
