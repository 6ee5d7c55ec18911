"""A batch is seen to have ended at the moment in which a person retries one of its records."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from jobs import backlog
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog.selection import locked_batches
from schedules import batches, emitter
from schedules.models import Schedule, Trigger
from tests.factories import NOON, install_presets, make_record, make_schedule
from tests.threads import a_lock_is_waited_for, another_connection, beside, impatience
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


@pytest.fixture(autouse=True)
def _rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install_presets()
    monkeypatch.setitem(registry.kinds, "event", Kind("event"))
    batches._witnesses.clear()
    yield
    batches._witnesses.clear()


@pytest.fixture
def schedule() -> Schedule:
    return make_schedule(
        kind="event", provider="", event_count=2, cron="0 * * * *", next_trigger_at=NOON + timedelta(days=1)
    )


def make_ended(schedule: Schedule, **fields: Any) -> BacklogRecord:
    """A failed record of a batch whose end is not noted yet."""
    Trigger.objects.get_or_create(
        schedule=schedule, trigger_at=NOON, defaults={"emitted_at": NOON, "events": 2, **fields}
    )
    return make_record(Status.FAILED, kind="event", origin=schedule, trigger_at=NOON)


def finish() -> int:
    return batches.finish_ended(NOON + SECOND)


def finished_at() -> Any:
    return Trigger.objects.get().finished_at


class TestARetryBesideAFinish:
    def test_that_comes_first_keeps_the_batch_under_way(self, schedule: Schedule) -> None:
        record = make_ended(schedule)
        with transaction.atomic():
            backlog.retry([record.pk])
            assert beside(finish).result(PATIENCE) == 0
        assert finished_at() is None
        assert finish() == 0
        assert BacklogRecord.objects.get().status == Status.READY

    def test_that_comes_second_waits_and_takes_the_end_back(self, schedule: Schedule) -> None:
        record = make_ended(schedule)
        with transaction.atomic():
            assert finish() == 1
            retrying = beside(lambda: backlog.retry([record.pk]))
            eventually(a_lock_is_waited_for)
        assert retrying.result(PATIENCE).ready == [record.pk]
        assert finished_at() is None

    def test_that_commits_after_the_first_look_is_seen_by_the_second(
        self, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = make_ended(schedule)
        look = batches._without_witness

        def look_and_be_overtaken(ids: list[int]) -> list[int]:
            found = look(ids)
            backlog.retry([record.pk])
            return found

        monkeypatch.setattr(batches, "_without_witness", look_and_be_overtaken)
        assert finish() == 0
        assert finished_at() is None

    def test_of_a_record_that_succeeded_takes_no_end_back(self, schedule: Schedule) -> None:
        record = make_ended(schedule)
        BacklogRecord.objects.update(status=Status.SUCCEEDED)
        with transaction.atomic():
            assert finish() == 1
            retrying = beside(lambda: backlog.retry([record.pk]))
            eventually(a_lock_is_waited_for)
        assert retrying.result(PATIENCE).succeeded == [record.pk]
        assert finished_at() == NOON + SECOND


class TestARetryBesideOthers:
    def test_takes_the_end_back_although_another_one_that_did_is_rolled_back(self, schedule: Schedule) -> None:
        first, second = [make_ended(schedule, finished_at=NOON) for _ in range(2)]
        with transaction.atomic():
            backlog.retry([first.pk])
            retrying = beside(lambda: backlog.retry([second.pk]))
            eventually(a_lock_is_waited_for)
            transaction.set_rollback(True)
        assert retrying.result(PATIENCE).ready == [second.pk]
        assert finished_at() is None

    def test_waits_for_no_emitter_of_a_batch_that_is_under_way(self, schedule: Schedule) -> None:
        record = make_ended(schedule)
        with another_connection() as emitter, impatience():
            emitter.execute("SELECT FROM schedules_trigger FOR NO KEY UPDATE")
            assert backlog.retry([record.pk]).ready == [record.pk]

    def test_lets_an_emitter_lock_its_trigger(self, schedule: Schedule) -> None:
        record = make_ended(schedule)
        with another_connection() as emitter, transaction.atomic():
            backlog.retry([record.pk])
            emitter.execute("SET lock_timeout = '200ms'")
            assert emitter.execute("SELECT FROM schedules_trigger FOR NO KEY UPDATE").rowcount == 1

    @pytest.mark.parametrize(
        "lock",
        [
            lambda: [backlog.retry(list(BacklogRecord.objects.values_list("pk", flat=True))).ready],
            lambda: list(locked_batches(BacklogRecord.objects.all(), 10)),
        ],
        ids=["of one", "of many"],
    )
    def test_holds_its_trigger_before_its_record_as_an_emitter_would(self, lock: Any, schedule: Schedule) -> None:
        """A deletion of triggers, which then detaches their records, waits for it, never the other way round."""
        record = make_ended(schedule)
        with another_connection() as other:
            other.execute("SELECT FROM schedules_trigger FOR UPDATE")
            retrying = beside(lock)
            eventually(a_lock_is_waited_for)
            other.execute("SET lock_timeout = '200ms'")
            assert other.execute("SELECT FROM jobs_backlogrecord FOR UPDATE").rowcount == 1
            other.rollback()
            assert retrying.result(PATIENCE) == [[record.pk]]

    def test_that_opens_nothing_makes_the_next_trigger_skip_nothing(self, schedule: Schedule) -> None:
        """It holds the batch, so that its end is not noted; a trigger that is skipped for that would be lost."""
        record = make_ended(schedule)
        BacklogRecord.objects.update(status=Status.SUCCEEDED)
        Schedule.objects.update(overlap="skip", next_trigger_at=NOON + HOUR)
        with transaction.atomic():
            assert backlog.retry([record.pk]).ready == []
            beside(lambda: emitter.emit_triggers(NOON + HOUR)).result(20)
        emitter.emit_triggers(NOON + HOUR + SECOND)
        latest = Trigger.objects.latest("trigger_at")
        assert (latest.trigger_at, latest.skipped_for, latest.events) == (NOON + HOUR, "", 2)


class TestAFinishBesideOthers:
    def test_passes_by_what_they_hold_and_notes_the_rest(self, schedule: Schedule) -> None:
        make_ended(schedule)
        other = make_schedule(kind="event", provider="", event_count=1)
        make_ended(other)
        with another_connection() as holder, impatience():
            holder.execute("SELECT FROM schedules_trigger WHERE schedule_id = %s FOR KEY SHARE", [schedule.pk])
            assert finish() == 1
        assert Trigger.objects.get(finished_at=None).schedule_id == schedule.pk
        assert finish() == 1
