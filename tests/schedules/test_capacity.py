"""The capacity check: its load, its pace, whether batches complete, and what it says. Most of it without a database."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.models import Max, Min
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from jobs import tick
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from schedules import stagger
from schedules.capacity import (
    MINUTES,
    WORKER_PACE,
    Capacity,
    Limits,
    assess,
    check,
    limits_of,
    queued,
    steps_of_batch,
    triggers,
)
from schedules.capacity_report import messages
from schedules.models import Schedule
from schedules.previews import coming_batches
from schedules.time_limits import within
from tests.factories import make_worker
from tests.schedules.factories import make_events, make_throttle
from tests.schedules.loads import SATURDAY, demand, found, slow
from tests.sources.factories import make_assignment, make_policy
from tests.yardstick import of_a_processor

HOUR = timedelta(hours=1)


def texts_of(capacity: Capacity) -> dict[str, str]:
    return {message.text: message.level for message in messages(capacity)}


class TestTheLoad:
    @given(
        events=st.integers(1, 300),
        window_for=st.integers(60, 40_000),
        schedule_id=st.integers(1, 1000),
        hours=st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True),
    )
    def test_is_what_counting_each_event_gives(
        self, events: int, window_for: int, schedule_id: int, hours: list[int]
    ) -> None:
        cron = f"5 {','.join(map(str, hours))} * * *"
        load = found(events=events, window_for=window_for, cron=cron, pk=schedule_id).load
        counted = [0.0] * MINUTES
        for trigger in triggers(cron, "UTC", SATURDAY, MINUTES):
            for place in stagger.offsets(events, window_for, schedule_id):
                if (minute := trigger + int(place // 60)) < MINUTES:
                    counted[minute] += 1
        assert load == counted

    def test_taken_as_even_is_true_to_one_event_a_minute_and_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exact = found(events=600, window_for=5_400)
        monkeypatch.setattr("schedules.capacity.MOST_STEPS", 0)
        even = found(events=600, window_for=5_400)
        assert max(abs(one - other) for one, other in zip(exact.load, even.load, strict=True)) <= 2
        assert sum(even.load) == pytest.approx(sum(exact.load), rel=0.001)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("events", "window_for", "others"), [(1_000_000, 60, 1), (5_000, 31 * 86_400, 1), (10, 3_600, 1_000)]
    )
    def test_costs_less_than_a_second_however_much_it_is(self, events: int, window_for: int, others: int) -> None:
        triggers.cache_clear()
        beside = [demand(name="other", cron="*/5 * * * *", events=events, pk=pk) for pk in range(1, others + 1)]
        with of_a_processor(seconds=1):
            capacity = found(*beside, cron="* * * * *", events=events, window_for=window_for)
        assert len(capacity.ended) == MINUTES - 1

    def test_is_given_up_when_those_that_share_the_throttle_take_too_long(self) -> None:
        beside = [demand(cron=f"{minute} {hour} * * *") for minute in range(60) for hour in range(5)]
        steps = list[int]()
        assess([demand(), *beside], Limits(), SATURDAY, lambda: steps.append(1))
        assert len(steps) == len(beside)
        with pytest.raises(ValueError, match=r"more than 0 s to find the load of so many schedules.*schedules plan"):
            assess([demand(), *beside], Limits(), SATURDAY, within(0, "the load of so many schedules: schedules plan"))

    def test_is_the_sum_of_those_that_share_the_throttle(self) -> None:
        others = [demand(events=70, pk=7), demand(events=30, cron="*/5 * * * *", pk=8, stagger="none")]
        alone = [assess([each], Limits(), SATURDAY).load for each in others]
        together = found(*others, events=50, pk=9).load
        mine = found(events=50, pk=9).load
        assert together == pytest.approx([sum(loads) for loads in zip(mine, *alone, strict=True)])

    def test_follows_the_clocks_of_its_zone(self) -> None:
        before_the_change = datetime(2026, 10, 24, tzinfo=UTC)
        capacity = found(cron="0 12 * * *", zone="Europe/Berlin", stagger="none", now=before_the_change)
        assert [minute for minute, events in enumerate(capacity.load) if events][:2] == [600, 1440 + 660]

    def test_of_one_that_triggers_later_begins_at_its_next_trigger(self) -> None:
        capacity = found(cron="0 0 1 3 *")
        assert capacity.next_triggers[0] == capacity.start + timedelta(minutes=1) == datetime(2027, 3, 1, tzinfo=UTC)
        assert len(capacity.ended) == 1


class TestThePace:
    @pytest.mark.parametrize(
        ("limits", "seconds", "pace"),
        [
            (Limits(), 1.0, WORKER_PACE),
            (slow(rate=None, in_flight=10), 0.5, 20),
            (slow(rate=5, in_flight=10), 0.5, 5),
            (slow(rate=5, in_flight=1), 0.5, 2),
            (slow(rate=None, in_flight=10)._replace(places=4, workers=1), 0.5, 8),
            (Limits(places=4, workers=1), 0.0, WORKER_PACE),
            (Limits(places=400, workers=2), 0.0014, 2 * WORKER_PACE),
            (slow(in_flight=0), 1.0, 0),
        ],
    )
    def test_is_the_least_of_cap_rate_places_and_workers(self, limits: Limits, seconds: float, pace: float) -> None:
        assert limits.pace(seconds)[0] == pace


class TestTheQueue:
    def test_leaves_to_the_next_minute_what_one_does_not_work_off(self) -> None:
        assert queued([100, 0, 10, 0, 200]) == [100, 40, 10, 0, 200]

    @given(st.lists(st.floats(0, 1000), min_size=1, max_size=50))
    def test_loses_no_work(self, work: list[float]) -> None:
        assert sum(min(60.0, each) for each in queued([*work, *[0.0] * 2000])) == pytest.approx(sum(work))


class TestTheVerdict:
    def test_a_batch_completes_at_the_pace_of_its_throttle(self) -> None:
        capacity = found(limits=slow())
        assert (capacity.pace, capacity.batch_takes, len(capacity.ended), capacity.late) == (1, 1_000, 167, [])
        assert capacity.busy == pytest.approx(1_000 / 3_600, rel=0.01)
        text = "Each batch of 1,000 events takes 16 min 40 s at 1 a second: it completes in its window of 1 h."
        assert texts_of(capacity)[text] == "good"

    def test_a_batch_that_needs_more_than_that_does_not(self) -> None:
        capacity = found(events=1_000_000, window_for=60, cron="0 3 * * *", limits=slow(rate=50, in_flight=99))
        assert (capacity.batch_takes, len(capacity.late)) == (20_000, 7)
        text = (
            "Cannot complete: 1,000,000 events in 1 min need 16,667 a second, the throttle slow lets 50 through. "
            "A batch takes 5 h 33 min."
        )
        assert texts_of(capacity)[text] == "bad"

    def test_a_batch_waits_for_another_that_shares_its_throttle(self) -> None:
        flood = demand(name="flood", cron="0 3 * * *", events=10_000)
        capacity = found(flood, limits=slow(), zone="Europe/Berlin")
        # 11,000 come in the first hour and 1,000 in each, 3,600 go
        assert {trigger.hour for trigger, _ in capacity.late} == {3, 4, 5}
        [text] = [text for text, level in texts_of(capacity).items() if level == "bad"]
        assert (
            "but 21 of 167 batches in these 7 days end after their window behind others that share its throttle"
        ) in text
        assert text.endswith("first that of Sat 2026-11-21 04:00.")
        assert "It shares the throttle slow with flood." in texts_of(capacity)

    def test_what_ranks_lower_does_not_delay_it(self) -> None:
        flood = demand(name="flood", cron="0 3 * * *", events=10_000, priority=-1)
        assert not found(flood, limits=slow()).late
        assert found(flood, limits=slow(), priority=-1).late

    def test_each_schedule_has_its_own_duration(self) -> None:
        lengthy = demand(name="slow", cron="0 3 * * *", events=100, seconds_each=100, stagger="none")
        one = {"cron": "0 3 * * *", "events": 1, "stagger": "none"}
        capacity = found(lengthy, limits=slow(rate=None, in_flight=1), **one)
        assert capacity.ended[0][1] == pytest.approx(100 * 100 + 1 + 1)

    def test_of_a_paused_throttle_there_is_none(self) -> None:
        capacity = found(limits=slow(in_flight=0))
        assert (capacity.pace, capacity.ended) == (0, [])
        text = "No batch begins: the throttle slow is paused (at most 0 in flight) until it is raised."
        assert texts_of(capacity)[text] == "bad"

    def test_names_the_workers_where_they_are_the_limit(self) -> None:
        limits = slow(rate=None)._replace(places=2, workers=1)
        assert any(
            "the concurrency of the workers lets 2" in text for text in texts_of(found(events=10_000, limits=limits))
        )
        short = found(events=1_000_000, window_for=60, seconds_each=0.001, limits=Limits(places=200, workers=1))
        assert any("the speed of the workers lets 1,500 through" in text for text in texts_of(short))

    def test_a_batch_late_by_less_than_a_tenth_of_a_second_completes(self) -> None:
        _, last = steps_of_batch(demand(), 1)
        assert not found(seconds_each=3_600 - last + 0.04, limits=slow(rate=None, in_flight=1_000)).late

    def test_more_than_gets_through_is_warned_of(self) -> None:
        texts = texts_of(found(events=9_000, window_for=0, limits=slow()))
        assert [text for text, level in texts.items() if level == "bad"] == [
            "The throttle slow is asked for 2.5 times what it can take in these 7 days: more and more is left over."
        ]

    def test_a_window_longer_than_the_time_between_triggers_is_warned_of(self) -> None:
        text = (
            "Its window of 2 h is longer than the 1 h between two triggers: while an earlier batch is unfinished, a "
            "trigger is to emit nothing."
        )
        assert texts_of(found(window_for=7_200, overlap="skip"))[text] == "warning"
        assert "warning" not in texts_of(found()).values()


@pytest.mark.django_db
class TestTheLimits:
    def test_are_the_throttle_and_the_live_workers_that_serve_its_queue_or_what_that_feeds(self) -> None:
        now = database_clock()
        make_worker(queues={"callbacks": 200, "backups": 16})
        make_worker(queues={"callbacks": 100})
        make_worker(queues={"backups": 16})
        make_worker(queues={"callbacks": 1}, heartbeat_at=now - HOUR)
        make_worker(queues={"callbacks": 2}, stopped_at=now)
        throttle = make_throttle()
        assert limits_of(make_events(throttle=throttle), now) == (throttle, 300, 2)
        make_worker(queues={"availability": 200, "backups": 1})
        assert limits_of(Schedule(kind="backup"), now).places == 33


@pytest.mark.django_db
class TestTheCheck:
    @pytest.mark.parametrize(("count", "window_for"), [(7, 600), (100, 3_600), (500, 90), (300, 0)])
    def test_foresees_what_is_emitted(self, count: int, window_for: int) -> None:
        three = SATURDAY + 3 * HOUR
        way = "even" if window_for else "none"
        schedule = make_events(event_count=count, window_for=window_for, stagger=way, next_trigger_at=three)
        load = check(schedule, SATURDAY).load
        tick.tick(now=three)
        emitted = [0.0] * 1440
        for run_after in BacklogRecord.objects.filter(origin=schedule).values_list("run_after", flat=True):
            emitted[int((run_after - SATURDAY).total_seconds()) // 60] += 1
        assert sum(emitted) == count
        assert load[:1440] == emitted
        [batch] = coming_batches(schedule, 1, now=SATURDAY)
        ends = BacklogRecord.objects.filter(origin=schedule).aggregate(first=Min("run_after"), last=Max("run_after"))
        assert (batch.first_at, batch.last_at) == (ends["first"], ends["last"])

    def test_takes_what_shares_the_throttle_is_enabled_and_can_be_read(self) -> None:
        throttle, other = make_throttle(), make_throttle(name="other")
        schedule = make_events(name="a", throttle=throttle)
        make_events(name="b", throttle=throttle, cron="0 9 * * *", event_count=7, stagger="none")
        make_events(name="c", throttle=other)
        make_events(name="d", throttle=throttle, enabled=False)
        make_events(name="e")
        make_events(name="f", throttle=throttle, cron="soon")
        make_events(name="g", throttle=throttle, zone="Mars/Olympus")
        capacity = check(schedule, SATURDAY)
        assert (capacity.others, capacity.load[540]) == (["b"], 7)
        for name in ("f", "g"):
            with pytest.raises(ValueError, match=r"cron 'soon'|Mars/Olympus"):
                check(Schedule.objects.get(name=name), SATURDAY)

    def test_takes_a_schedule_as_it_is_edited(self) -> None:
        throttle = make_throttle()
        schedule = make_events(throttle=throttle)
        schedule.event_count, schedule.stagger = 5_000, "none"
        capacity = check(schedule, SATURDAY)
        assert (max(capacity.load), capacity.others) == (5_000, [])
        unsaved = Schedule(name="new", cron="0 3 * * *", kind="http_callback", event_count=3, throttle=throttle)
        capacity = check(unsaved, SATURDAY)
        assert (capacity.demand.events, capacity.others) == (3, ["nightly"])

    def test_of_a_policy_has_an_event_for_each_assignment(self) -> None:
        throttle = make_throttle()
        policy = make_policy(throttle=throttle)
        for _ in range(3):
            make_assignment(policy)
        make_assignment()
        capacity = check(policy.schedule, SATURDAY)
        assert capacity.demand.events == 3
        assert messages(capacity)[0].text.startswith("Each batch of up to 3 events")
        assert sum(check(make_events(throttle=throttle, event_count=1), SATURDAY).load) > 7

    def test_asks_no_more_often_for_many(self) -> None:
        throttle = make_throttle()
        schedule = make_events(throttle=throttle)
        with CaptureQueriesContext(connection) as few:
            check(schedule, SATURDAY)
        for number in range(20):
            make_events(name=f"other {number}", throttle=throttle)
        with CaptureQueriesContext(connection) as many:
            check(schedule, SATURDAY)
        assert len(many) == len(few) <= 4
