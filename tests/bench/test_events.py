"""The bench's batches of events: that they are what the part says they are."""

import pytest

from bench.fleets import events as fleet
from bench.parts.events import fullest_minute, most_a_minute
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import Status
from schedules import emitter
from schedules.models import Schedule

pytestmark = pytest.mark.django_db


class TestABatch:
    def test_is_due_and_not_yet_emitted(self):
        fleet.make_batch(50, "even")
        assert Schedule.objects.get().next_trigger_at <= database_clock()
        assert not BacklogRecord.objects.exists()

    def test_carries_what_callbacks_carry(self):
        fleet.make_batch(3, "none")
        emitter.emit_triggers(database_clock())
        event = BacklogRecord.objects.order_by("pk")[1]
        assert event.lane
        assert event.payload["endpoint"] == event.origin.schedule.endpoint_id
        assert event.payload["url"] is None
        assert event.payload["body"]["shard"] == 2

    @pytest.mark.parametrize(("stagger", "fullest"), [("even", 2), ("none", 100)])
    def test_of_a_hundred_over_an_hour_is_as_even_as_the_part_says(self, monkeypatch, stagger, fullest):
        monkeypatch.setattr(fleet, "prepare_in_this_thread", lambda: None)
        fleet.make_batch(100, stagger)
        starts = fleet.starts()
        assert len(starts) == 100
        assert fullest_minute(starts) == fullest


class TestLaunches:
    def test_have_their_trigger_when_the_next_minute_begins_and_say_when_they_are_to_start(self):
        before = database_clock().timestamp()
        trigger_at = fleet.make_launches("launched", 4, 30, 3)
        assert trigger_at % 60 == 0
        assert before < trigger_at <= database_clock().timestamp() + 60
        due = Schedule.objects.values_list("next_trigger_at", flat=True)[0]
        assert emitter.emit_triggers(due) == 7
        launched = BacklogRecord.objects.filter(origin__name="staggered", status=Status.WAITING)
        assert all(event.payload["body"]["at"][:19] == f"{event.run_after:%Y-%m-%dT%H:%M:%S}" for event in launched)
        assert launched.count() >= 3


class TestTheFullestMinute:
    def test_is_counted_from_the_trigger(self):
        assert fullest_minute([0, 59.9, 60, 61, 119.999, 120]) == 3

    @pytest.mark.parametrize(("mean", "most"), [(1.5, 3.5), (9.9, 11.9), (10, 12), (100, 120)])
    def test_may_have_two_more_than_a_small_mean_and_a_fifth_more_than_a_large_one(self, mean, most):
        assert most_a_minute(mean) == pytest.approx(most)
