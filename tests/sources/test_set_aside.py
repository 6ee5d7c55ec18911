"""One row that a step cannot read is set aside and named once; the others continue, and the doctor shows it."""

import logging
from datetime import datetime, timedelta

import pytest

from jobs import backlog, tick, window_ends
from jobs.clock import database_clock
from jobs.handlers import Kind, Opening, registry
from jobs.models import BacklogRecord, Decision
from jobs.set_aside import SetAside
from jobs.states import Status, WaitingFor
from schedules import batches, emitter, providers, triggers
from schedules.models import Late, Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule
from tests.operations.conditions.examining import OK, PROBLEM, finding
from tests.sources.factories import make_assignment, make_policy

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture(autouse=True)
def nothing_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "_unreadable", SetAside())
    monkeypatch.setattr("schedules.unemitted_triggers._failing", SetAside())
    monkeypatch.setattr("jobs.set_aside._named", set())


@pytest.fixture
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
    monkeypatch.setattr(providers, "known", dict(providers.known))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


class TestTheClosingOfWindows:
    def test_sets_aside_a_backup_whose_subject_names_no_assignment(self, caplog: pytest.LogCaptureFixture) -> None:
        now = database_clock()
        closed = {"kind": "backup", "queue": "availability", "closes_at": now - MINUTE, "run_after": now - HOUR}
        good = [make_assignment(make_policy()) for _ in range(3)]
        for assignment in good:
            make_record(subject=f"assignment:{assignment.pk}", **closed)
        bad = make_record(subject="nonsense", **closed)
        for _ in range(3):
            tick.tick()
        assert {record.closes_at for record in BacklogRecord.objects.exclude(pk=bad.pk)} == {None}  # open again
        bad.refresh_from_db()
        assert (bad.status, bad.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
        assert bad.run_after > now + 59 * MINUTE
        assert "backup nonsense opens: ValueError" in bad.last_error
        assert len(errors(caplog)) == Decision.objects.filter(what="set aside").count() == 1
        found = finding("set_aside")
        assert (found.severity, [each.subject for each in found.found]) == (PROBLEM, [f"record:{bad.pk}"])
        BacklogRecord.objects.filter(pk=bad.pk).update(subject=f"assignment:{make_assignment(make_policy()).pk}")
        assert tick.tick(now + 2 * HOUR).closed == 1  # nothing but the correction is needed
        assert finding("set_aside").severity is OK

    def test_sets_aside_more_of_them_than_a_batch_takes(self, own_kinds: None, monkeypatch: pytest.MonkeyPatch) -> None:
        def next_opening(records: list[tuple[int, str]], now: datetime) -> dict[int, Opening]:
            return {record_id: (now + HOUR * int(subject), None) for record_id, subject in records}

        registry.add(Kind("test", next_opening=next_opening))
        monkeypatch.setattr(window_ends, "BATCH", 2)
        for number in range(5):
            make_record(subject=f"bad {number}", closes_at=NOON - MINUTE)
        good = make_record(subject="3", closes_at=NOON)
        assert window_ends.close_windows(NOON, seconds=60) == 6
        good.refresh_from_db()
        assert good.run_after == NOON + 3 * HOUR

    @pytest.mark.parametrize("status", [Status.READY, Status.WAITING])
    def test_leaves_a_kind_that_only_other_workers_know_to_them(self, status: Status, own_kinds: None) -> None:
        schedule = make_schedule(late=Late.DROP)
        Trigger.objects.create(schedule=schedule, trigger_at=NOON, events=1, emitted_at=NOON, closes_at=NOON)
        closed = {"kind": "newer", "closes_at": NOON, "trigger_at": NOON, "origin": schedule}
        record = make_record(status, **closed)
        for _ in range(2):
            window_ends.close_windows(NOON)
            batches.drop_late(NOON)
            record.refresh_from_db()
            assert (record.status, record.last_error) == (status, "")
            backlog.retry([record.pk], now=NOON)
            record.refresh_from_db()
            assert (record.status, record.closes_at) == (Status.READY, NOON)
            status = Status.READY
        registry.add(Kind("newer", next_opening=lambda records, now: {record.pk: (now + HOUR, None)}))
        assert window_ends.close_windows(NOON) == 1
        record.refresh_from_db()
        assert (record.status, record.run_after) == (Status.WAITING, NOON + HOUR)


class TestTheEmission:
    def test_sets_aside_one_schedule_of_a_provider(self, own_kinds: None, caplog: pytest.LogCaptureFixture) -> None:
        def provide(wanted: list[tuple[Schedule, datetime]], now: datetime) -> int:
            return len([make_record(subject=f"{100 // len(schedule.name)}{schedule.pk}") for schedule, _ in wanted])

        providers.add_provider("test", provide)
        names = ["", *"abcdef"]
        for name in names:
            make_schedule(name=name, next_trigger_at=NOON, cron="0 12 * * *")
        assert sum(emitter.emit_triggers(NOON + n * MINUTE / 3) for n in range(3)) == 6
        assert [trigger.schedule.name for trigger in Trigger.objects.filter(emitted_at=None)] == [""]
        assert len(errors(caplog)) == 1
        assert "its trigger of 2026-03-02 12:00:00 UTC puts nothing" in finding("schedules").what

    def test_sets_aside_a_schedule_that_no_calendar_has(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_schedule(name="odd", provider="", event_count=1, cron="0 12 31 2 *", next_trigger_at=NOON)
        make_schedule(name="good", provider="", event_count=1, cron="0 12 * * *", next_trigger_at=NOON)
        for minute in range(3):
            emitter.emit_triggers(NOON + minute * MINUTE)
        assert BacklogRecord.objects.count() == 1
        assert len(errors(caplog)) == 1
        assert "odd: it cannot be read" in finding("schedules").what
