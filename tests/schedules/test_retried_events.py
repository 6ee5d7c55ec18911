"""Retry now of events: a closed window keeps none from being tried, and their batch is under way again."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs import backlog, window_ends
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from schedules import batches, emitter
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule

pytestmark = pytest.mark.django_db

NINE = NOON.replace(hour=9)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.kinds, "event", Kind("event"))
    monkeypatch.setitem(registry.kinds, "opening", Kind("opening", next_opening=lambda records, now: {}))


def make_emitted(**fields: Any) -> Schedule:
    """A schedule of one event, emitted at nine."""
    values = {"kind": "event", "provider": "", "event_count": 1, "next_trigger_at": NINE}
    schedule = make_schedule(**(values | fields))
    emitter.emit_triggers(NINE)
    return schedule


def end_at(instant: datetime, status: Status = Status.FAILED) -> BacklogRecord:
    BacklogRecord.objects.update(status=status, finished_at=instant, waiting_for=None)
    batches.finish_ended(instant)
    assert Trigger.objects.get().finished_at == instant
    return BacklogRecord.objects.get()


class TestAWindowThatHasClosed:
    @pytest.mark.parametrize("waits", [False, True])
    def test_lets_a_dropped_or_waiting_event_be_ready_and_stay_it(self, waits: bool) -> None:
        make_emitted(window_for=60, late="drop")
        if waits:
            BacklogRecord.objects.update(status=Status.WAITING, waiting_for=WaitingFor.BACKOFF, run_after=NINE + DAY)
        window_ends.close_windows(NINE + 61 * SECOND)
        record = BacklogRecord.objects.get()
        assert (record.status, record.last_error) == (
            (Status.WAITING, "") if waits else (Status.FAILED, window_ends.WINDOW_CLOSED)
        )
        assert backlog.retry([record.pk], now=NINE + HOUR).ready == [record.pk]
        window_ends.close_windows(NINE + HOUR + SECOND)
        batches.keep(NINE + HOUR + SECOND)
        record.refresh_from_db()
        assert (record.status, record.closes_at) == (Status.READY, None)

    @pytest.mark.parametrize("status", [Status.WAITING, Status.FAILED])
    @pytest.mark.parametrize(("kind", "closes_at"), [("event", NOON + HOUR), ("opening", NOON - HOUR)])
    def test_an_open_one_and_that_of_a_kind_with_openings_stay(
        self, status: Status, kind: str, closes_at: datetime
    ) -> None:
        record = make_record(status, kind=kind, closes_at=closes_at)
        backlog.retry([record.pk], now=NOON)
        record.refresh_from_db()
        assert (record.status, record.closes_at) == (Status.READY, closes_at)


class TestABatchThatHadEnded:
    @pytest.mark.parametrize("overlap", ["queue", "skip"])
    def test_is_under_way_and_no_other_begins_beside_the_retried_event(self, overlap: str) -> None:
        make_emitted(overlap=overlap, catch_up_for=3 * 86_400)
        record = end_at(NINE + SECOND)
        backlog.retry([record.pk], now=NINE + 2 * SECOND)
        batches.finish_ended(NINE + 3 * SECOND)
        assert Trigger.objects.get().finished_at is None
        emitter.emit_triggers(NINE + DAY)
        assert BacklogRecord.objects.count() == 1

    def test_stays_ended_when_nothing_of_it_is_opened(self) -> None:
        make_emitted()
        record = end_at(NINE + SECOND, Status.SUCCEEDED)
        other = make_record(Status.FAILED)
        assert backlog.retry([record.pk, other.pk], now=NINE + HOUR).succeeded == [record.pk]
        assert Trigger.objects.get().finished_at == NINE + SECOND

    def test_of_a_skipped_trigger_nothing_changes(self) -> None:
        schedule = make_emitted()
        record = end_at(NINE + SECOND)
        Trigger.objects.update(emitted_at=None, events=0, skipped_for="asked")
        backlog.retry([record.pk], now=NINE + HOUR)
        assert Trigger.objects.get(schedule=schedule).finished_at == NINE + SECOND
