"""The behaviour of a trigger while an earlier batch of its schedule is unfinished."""

from datetime import timedelta

import pytest

from jobs import tick
from jobs.models import BacklogRecord, Decision
from jobs.states import Status
from schedules import batches, chunks, emitter, unemitted_triggers
from schedules.models import Schedule, Trigger
from schedules.triggers import STILL_UNDER_WAY
from tests.factories import NOON, make_schedule

pytestmark = pytest.mark.django_db

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


def make_hourly(overlap: str, **fields: object) -> Schedule:
    """A schedule of two events. Its trigger of noon is emitted."""
    values = {"cron": "0 * * * *", "provider": "", "event_count": 2, "next_trigger_at": NOON}
    schedule = make_schedule(overlap=overlap, **(values | fields))
    emitter.emit_triggers(NOON)
    return schedule


def emitted() -> list[int]:
    """The hours of the triggers that were emitted, in their order."""
    triggers = Trigger.objects.filter(emitted_at__isnull=False).order_by("emitted_at", "trigger_at")
    return [trigger.trigger_at.hour for trigger in triggers]


def end_the_batch_of(hour: int, status: Status = Status.SUCCEEDED) -> None:
    batch = BacklogRecord.objects.filter(trigger_at=NOON.replace(hour=hour))
    batch.update(status=status, finished_at=NOON, waiting_for=None)


class TestSkip:
    def test_emits_nothing_and_says_why_where_another_that_allows_it_begins_beside_it(self):
        make_hourly("allow")
        make_hourly("skip", name="hourly")
        assert emitter.emit_triggers(NOON + HOUR) == 2
        assert emitted() == [12, 12, 13]
        skipped = Trigger.objects.get(trigger_at=NOON + HOUR, emitted_at=None)
        assert (skipped.skipped_for, skipped.finished_at, skipped.events) == (STILL_UNDER_WAY, NOON + HOUR, 0)
        text = f"hourly, trigger of 2026-03-02 13:00:00 UTC: emitted nothing: {STILL_UNDER_WAY}"
        assert Decision.objects.get(what="skipped").text == text

    def test_begins_again_once_the_earlier_batch_has_ended_however_it_ended(self):
        make_hourly("skip")
        end_the_batch_of(12, Status.FAILED)
        BacklogRecord.objects.filter(payload__number=1).update(status=Status.READY, finished_at=None)
        assert emitter.emit_triggers(NOON + HOUR) == 0
        end_the_batch_of(12, Status.FAILED)
        assert emitter.emit_triggers(NOON + 2 * HOUR) == 2
        assert emitted() == [12, 14]
        assert Trigger.objects.get(trigger_at=NOON).finished_at == NOON + 2 * HOUR

    def test_of_several_missed_triggers_the_first_one_is_emitted(self):
        make_hourly("skip", catch_up_for=86_400)
        end_the_batch_of(12)
        assert emitter.emit_triggers(NOON + 3 * HOUR) == 2
        assert emitted() == [12, 13]
        assert Trigger.objects.filter(skipped_for=STILL_UNDER_WAY).count() == 2


class TestQueue:
    def test_those_that_wait_for_the_earlier_batch_come_one_after_the_other_the_oldest_first(self):
        """A look sees them, and does not hurry for them."""
        make_hourly("queue")
        assert [emitter.emit_triggers(NOON + hours * HOUR) for hours in (1, 2)] == [0, 0]
        queued = Trigger.objects.get(trigger_at=NOON + HOUR)
        assert (queued.emitted_at, queued.skipped_for, queued.finished_at) == (None, "", None)
        later = NOON + 2 * HOUR + SECOND
        due = tick.look(now=later)
        assert (due.step.is_due, due.step.under_way) == (True, False)
        assert due.seconds_until_next() > 1000
        end_the_batch_of(12)
        assert tick.act_on(due, now=later, rescue=False).emitted == 2
        assert emitter.emit_triggers(later) == 0
        end_the_batch_of(13)
        emitter.emit_triggers(later)
        assert emitted() == [12, 13, 14]

    def test_they_hold_up_no_other_schedule(self, monkeypatch):
        monkeypatch.setattr(chunks, "TRIGGERS_A_CHUNK", 2)
        make_hourly("queue")
        for hours in range(1, 6):
            emitter.emit_triggers(NOON + hours * HOUR)
        make_schedule(cron="0 18 * * *", provider="", event_count=1, next_trigger_at=NOON + 6 * HOUR)
        assert emitter.emit_triggers(NOON + 6 * HOUR) == 1

    def test_what_began_between_the_question_and_the_locks_is_waited_for(self, monkeypatch):
        """The answer that a snapshot from before would give."""
        question = unemitted_triggers.UNEMITTED
        blind = question.replace("NOT \n       EXISTS", "TRUE OR EXISTS")
        assert blind != question
        make_hourly("queue")
        monkeypatch.setattr(unemitted_triggers, "UNEMITTED", blind)
        assert emitter.emit_triggers(NOON + HOUR) == 0

    def test_expires_when_it_has_waited_for_longer_than_its_schedule_catches_up(self):
        make_hourly("queue", catch_up_for=5400, name="hourly")
        emitter.emit_triggers(NOON + HOUR)
        emitter.emit_triggers(NOON + 2 * HOUR)
        emitter.emit_triggers(NOON + 2.5 * HOUR)
        assert not Trigger.objects.exclude(skipped_for="").exists()
        emitter.emit_triggers(NOON + 2.5 * HOUR + SECOND)
        expired = Trigger.objects.exclude(skipped_for="").get()
        assert expired.trigger_at == NOON + HOUR
        assert expired.skipped_for == "an earlier batch did not end within 5400 s"
        assert expired.finished_at == NOON + 2.5 * HOUR + SECOND

    def test_one_of_a_schedule_that_catches_up_without_end_never_expires_and_is_spread_from_its_turn_on(self):
        make_hourly("queue", stagger="even", window_for=600)
        emitter.emit_triggers(NOON + HOUR)
        end_the_batch_of(12)
        Schedule.objects.update(enabled=False)
        turn = NOON + 900 * HOUR
        assert emitter.emit_triggers(turn) == 2
        starts = BacklogRecord.objects.filter(trigger_at=NOON + HOUR).values_list("run_after", flat=True)
        assert all(turn <= start < turn + timedelta(seconds=600) for start in starts)

    def test_what_a_person_retries_does_not_hold_up_the_next_one(self):
        make_hourly("queue")
        end_the_batch_of(12, Status.FAILED)
        batches.keep(NOON + SECOND)
        BacklogRecord.objects.filter(payload__number=1).update(status=Status.READY, finished_at=None)
        assert emitter.emit_triggers(NOON + HOUR) == 2


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_however_many_triggers_of_a_schedule_emit_nothing_a_tick_writes_one_line_of_them(overlap: str):
    make_schedule(
        cron="* * * * *", provider="", event_count=1, overlap=overlap, catch_up_for=3 * 86_400, next_trigger_at=NOON
    )
    emitter.emit_triggers(NOON)
    for seconds in range(4):
        Decision.objects.filter(what="skipped").delete()
        emitter.emit_triggers(NOON + timedelta(days=2, seconds=seconds))
        lines = list(Decision.objects.filter(what="skipped").values_list("text", "facts__triggers"))
        assert len(lines) == (0 if overlap == "queue" and not seconds else 1), lines
        assert all(", 100 triggers from 2026-03-0" in text and triggers == 100 for text, triggers in lines)
