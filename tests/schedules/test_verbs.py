"""Requests of users: trigger now, pause, resume, cancel; and the effect of a save on the watermark."""

from datetime import timedelta

import pytest

from jobs.models import BacklogRecord, Decision
from jobs.states import Status
from schedules import chunks, emitter, providers, verbs
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule, make_worker

pytestmark = pytest.mark.django_db

NINE = NOON.replace(hour=9)
HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
MOMENT = timedelta(milliseconds=250)


def make_daily(**fields: object) -> Schedule:
    """A schedule of three events, at nine. Today's are done with."""
    values = {"name": "daily", "provider": "", "event_count": 3, "next_trigger_at": NINE + DAY}
    return make_schedule(**(values | fields))


class TestTriggerNow:
    def test_emits_a_batch_at_the_second_and_says_who_asked(self):
        schedule = make_daily(enabled=False)  # also while it is paused
        trigger = verbs.trigger_now(schedule, "anna", NOON + MOMENT)
        assert (trigger.trigger_at, trigger.asked_by, trigger.events) == (NOON, "anna", 3)
        assert trigger.emitted_at == NOON + MOMENT
        assert BacklogRecord.objects.ready().count() == 3
        assert Decision.objects.get(what="triggered").text.endswith("triggered by anna")
        schedule.refresh_from_db()
        assert schedule.next_trigger_at == NINE + DAY

    def test_is_refused_twice_in_one_second_and_emits_nothing_but_what_was_asked_for(self):
        make_daily(name="other", next_trigger_at=NINE)
        Trigger.objects.create(schedule=Schedule.objects.get(), trigger_at=NINE)
        schedule = make_daily()
        verbs.trigger_now(schedule, "anna", NOON)
        with pytest.raises(ValueError, match="daily has a trigger at 12:00:00 UTC already; try again in a second"):
            verbs.trigger_now(schedule, "anna", NOON + MOMENT)
        assert verbs.trigger_now(schedule, "anna", NOON + SECOND).events == 3
        assert set(BacklogRecord.objects.values_list("origin__name", flat=True)) == {"daily"}

    def test_of_a_policy_asks_its_provider(self, monkeypatch):
        asked = []
        monkeypatch.setattr(providers, "known", {"test": lambda triggers, now: asked.extend(triggers) or 0})
        schedule = make_schedule()
        trigger = verbs.trigger_now(schedule, "anna", NOON)
        assert asked == [(schedule, NOON)]
        assert trigger.emitted_at == NOON

    def test_leaves_the_rest_of_a_huge_batch_to_the_workers(self, monkeypatch):
        monkeypatch.setattr(chunks, "CHUNK", 2)
        trigger = verbs.trigger_now(make_daily(), "anna", NOON)
        assert (trigger.events, trigger.emitted_at) == (2, None)
        assert emitter.emit_triggers(NOON + SECOND) == 1

    def test_is_queued_or_skipped_as_the_schedule_says_and_does_not_expire(self):
        queues = make_daily(name="queues", overlap="queue", catch_up_for=0)
        skips = make_daily(name="skips", overlap="skip")
        for schedule in (queues, skips):
            verbs.trigger_now(schedule, "anna", NOON)
        queued, skipped = (verbs.trigger_now(schedule, "anna", NOON + SECOND) for schedule in (queues, skips))
        emitter.emit_triggers(NOON + HOUR)
        queued.refresh_from_db()
        assert (queued.emitted_at, queued.skipped_for) == (None, "")
        assert skipped.skipped_for == "an earlier batch of this schedule had not ended"
        assert BacklogRecord.objects.count() == 6


class TestPauseAndResume:
    def test_no_trigger_while_it_is_paused_and_none_is_caught_up(self):
        schedule = make_daily(catch_up_for=7 * 86_400)
        verbs.pause(schedule, NOON)
        assert not schedule.enabled
        assert emitter.emit_triggers(NINE + 2 * DAY) == 0
        verbs.resume(schedule, NINE + 2 * DAY + HOUR)
        assert emitter.emit_triggers(NINE + 2 * DAY + HOUR) == 0
        assert emitter.emit_triggers(NINE + 3 * DAY) == 3
        assert Trigger.objects.get().trigger_at == NINE + 3 * DAY

    def test_what_is_queued_emits_nothing_and_what_has_begun_goes_on(self, monkeypatch):
        monkeypatch.setattr(chunks, "CHUNK", 2)
        schedule = make_daily(overlap="queue")
        begun = verbs.trigger_now(schedule, "anna", NOON)
        queued = verbs.trigger_now(schedule, "anna", NOON + SECOND)
        verbs.pause(schedule, NOON + 2 * SECOND)
        emitter.emit_triggers(NOON + HOUR)
        for trigger in (begun, queued):
            trigger.refresh_from_db()
        assert begun.events == 3
        assert queued.skipped_for == verbs.PAUSED

    def test_a_policy_emits_the_period_in_which_it_is_resumed(self):
        schedule = make_schedule(enabled=False, next_trigger_at=NINE)
        verbs.resume(schedule, NOON + DAY)
        assert Schedule.objects.get().next_trigger_at is None


class TestSaved:
    def test_a_new_schedule_begins_with_its_next_trigger(self):
        schedule = make_daily(next_trigger_at=None)
        verbs.saved(schedule, None, NOON)
        assert schedule.next_trigger_at == Schedule.objects.get().next_trigger_at == NINE + DAY

    @pytest.mark.parametrize(("field", "value"), [("cron", "0 17 * * *"), ("zone", "America/New_York")])
    def test_another_cron_or_zone_begins_anew(self, field, value):
        schedule = make_daily()
        setattr(schedule, field, value)
        schedule.save()
        verbs.saved(schedule, {field}, NOON)
        assert Schedule.objects.get().next_trigger_at == schedule.period.next_after(NOON) != NINE + DAY

    def test_what_does_not_change_when_it_fires_leaves_the_watermark(self):
        schedule = make_daily(next_trigger_at=NINE)
        verbs.saved(schedule, {"priority", "event_count"}, NOON)
        assert Schedule.objects.get().next_trigger_at == NINE

    def test_one_that_was_disabled_leaves_nothing_in_its_queue(self):
        queued = Trigger.objects.create(schedule=make_daily(enabled=False), trigger_at=NINE)
        verbs.saved(queued.schedule, {"enabled"}, NOON)
        queued.refresh_from_db()
        assert queued.skipped_for == verbs.PAUSED


class TestCancel:
    def test_takes_what_is_unfinished_off_the_backlog(self):
        schedule = make_daily()
        trigger = verbs.trigger_now(schedule, "anna", NOON)
        done = BacklogRecord.objects.order_by("pk")[0]
        BacklogRecord.objects.filter(pk=done.pk).update(status=Status.SUCCEEDED, finished_at=NOON)
        make_record(Status.RUNNING, worker=make_worker(), origin=schedule, trigger_at=NOON, subject="running")
        other = verbs.trigger_now(schedule, "anna", NOON + SECOND)
        assert verbs.cancel_batch(trigger, NOON + HOUR) == 3
        assert BacklogRecord.objects.filter(status=Status.CANCELLED, trigger_at=NOON).count() == 2
        assert BacklogRecord.objects.get(subject="running").cancel_requested_at == NOON + HOUR
        assert BacklogRecord.objects.filter(trigger_at=other.trigger_at, status=Status.READY).count() == 3
        assert trigger.finished_at is None  # one still runs
        assert verbs.cancel_batch(other, NOON + HOUR) == 3
        assert other.finished_at == NOON + HOUR
        assert verbs.cancel_batch(other, NOON + HOUR) == 0

    def test_of_one_that_waits_in_the_queue_lets_it_emit_nothing(self):
        schedule = make_daily(overlap="queue")
        verbs.trigger_now(schedule, "anna", NOON)
        queued = verbs.trigger_now(schedule, "anna", NOON + SECOND)
        assert verbs.cancel_batch(queued, NOON + HOUR) == 0
        assert (queued.skipped_for, queued.finished_at) == (verbs.CANCELLED, NOON + HOUR)

    def test_of_one_in_the_middle_of_its_emission_ends_that(self, monkeypatch):
        monkeypatch.setattr(chunks, "CHUNK", 2)
        trigger = verbs.trigger_now(make_daily(), "anna", NOON)
        assert verbs.cancel_batch(trigger, NOON + SECOND) == 2
        assert (trigger.events, trigger.emitted_at, trigger.finished_at) == (2, NOON + SECOND, NOON + SECOND)
        assert emitter.emit_triggers(NOON + HOUR) == 0
