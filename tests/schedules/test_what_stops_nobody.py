"""One schedule that is too large, or that a host cannot read, holds up neither the others nor the workers."""

from datetime import datetime, timedelta

import pytest

from jobs import tick
from jobs.conf import QueueRule
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord
from jobs.set_aside import SetAside
from jobs.states import Status
from jobs.worker.process import WorkerProcess
from schedules import chunks, emitter, triggers, watermarks
from schedules.models import Schedule
from tests.factories import NOON, make_record, make_schedule

pytestmark = pytest.mark.django_db

NINE = NOON.replace(hour=9)
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "kinds", {**registry.kinds, "event": Kind("event", home_queue="callbacks")})
    monkeypatch.setattr(triggers, "_unreadable", SetAside())


def counted(count: int, **facts: object) -> Schedule:
    usual = {"kind": "event", "provider": "", "event_count": count, "next_trigger_at": NINE, "cron": "0 9 * * *"}
    return make_schedule(**(usual | facts))


class TestLargePayloads:
    def test_go_out_in_as_many_chunks_as_they_need_beside_small_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chunks, "LARGEST_CHUNK", 40_000)
        inserted: list[int] = []
        insert = chunks._insert
        monkeypatch.setattr(
            chunks,
            "_insert",
            lambda parts, now: inserted.append(sum(p.last - p.first + 1 for p in parts)) or insert(parts, now),
        )
        counted(10, name="large", payload_template={"blob": "x" * 15_000})
        counted(2, name="small")
        emitter.emit_triggers(NINE)
        assert BacklogRecord.objects.count() == 12
        assert max(inserted) <= 4


class TestAnErrorThatIsNoOutage:
    @pytest.mark.django_db(transaction=True)
    def test_of_an_emission_keeps_no_worker_from_claiming(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        from django.db import connection

        def fail(*_: object, **__: object) -> int:
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(1)")
            return 0

        monkeypatch.setattr(emitter, "record_due_triggers", fail)
        counted(1)
        make_record(Status.WAITING, queue="default", kind="event", run_after=NINE)
        worker = WorkerProcess([QueueRule("default", 1)])
        worker.register()
        worker.start()
        try:
            worker._safely(worker.do_one_round)  # one round: the steps behind the one that fails are done as well
            assert BacklogRecord.objects.get().attempt == 1
            assert "cannot emit triggers, trying again at the next tick" in caplog.text
        finally:
            worker.shut_down()


class TestAZoneThatThisHostDoesNotKnow:
    def test_is_left_to_the_hosts_that_do(self) -> None:
        schedule = counted(1, catch_up_for=3600, zone="Mars/Olympus")
        assert emitter.emit_triggers(NINE) == 0
        schedule.refresh_from_db()
        assert schedule.next_trigger_at == NINE

    @pytest.mark.parametrize("watermark", [NINE, None])
    def test_is_asked_about_once_a_minute_and_is_no_reason_to_hurry(
        self, watermark: datetime | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counted(1, catch_up_for=3600, next_trigger_at=watermark, zone="Mars/Olympus")
        asked: list[Schedule] = []
        monkeypatch.setattr(triggers, "due", lambda each, now: asked.append(each) or watermarks.due(each, now))
        for seconds in (0, 1, 59):
            emitter.emit_triggers(NINE + seconds * SECOND)
        assert len(asked) == 1
        assert not tick.look(now=NINE + SECOND).step.is_due
        assert tick.look(now=NINE + 61 * SECOND).step.is_due
