"""Batches on the backlog: what an event is, chunk by chunk, and what comes late."""

from datetime import timedelta

import pytest

from delivery.models import Endpoint
from jobs import tick, wakeups
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, Decision
from jobs.states import Status, WaitingFor
from schedules import chunks, emitter, events, templates
from schedules.models import Schedule, Trigger
from schedules.stagger import offsets
from tests.factories import NOON, make_lane, make_record, make_retry_policy, make_schedule, make_throttle
from tests.people import staff

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NINE = NOON.replace(hour=9)


@pytest.fixture(autouse=True)
def own_kind(monkeypatch):
    monkeypatch.setattr(registry, "kinds", {**registry.kinds, "event": Kind("event", home_queue="callbacks")})


def make_batch(count: int = 3, **fields: object) -> Schedule:
    """Daily at nine, dealt with up to before nine o'clock."""
    values = {"kind": "event", "provider": "", "event_count": count, "next_trigger_at": NINE}
    return make_schedule(**(values | fields))


def numbers() -> list[int]:
    """The ids of the events on the backlog, in the order of their insertion."""
    return [record.payload["number"] for record in BacklogRecord.objects.order_by("pk")]


def lines(what: str) -> list[str]:
    return list(Decision.objects.filter(what=what).order_by("pk").values_list("text", flat=True))


class TestAnEvent:
    def test_carries_all_that_its_delivery_needs(self):
        endpoint = Endpoint.objects.create(name="hook", url="https://example.com/$hooks?a=1")
        template = {"shard": "$number", "of": "$count", "text": "$schedule $trigger_at in $zone", "at": "$run_after"}
        schedule = make_batch(
            name='the "10 $" report',
            zone="Europe/Berlin",
            cron="0 10 * * *",
            endpoint=endpoint,
            payload_template=template,
        )
        emitter.emit_triggers(NINE)
        event = BacklogRecord.objects.order_by("pk")[1]
        assert event.payload == {
            "title": 'the "10 $" report 2/3',
            "schedule": 'the "10 $" report',
            "trigger_at": "2026-03-02T09:00:00Z",
            "event_id": f"{schedule.pk}-20260302T090000Z-2",
            "number": 2,
            "count": 3,
            "endpoint": endpoint.pk,
            "url": None,
            "body": {
                "shard": 2,
                "of": 3,
                "text": 'the "10 $" report 2026-03-02T09:00:00Z in Europe/Berlin',
                "at": "2026-03-02T09:00:00Z",
            },
        }
        assert (event.kind, event.queue, event.subject) == ("event", "callbacks", event.payload["event_id"])

    def test_does_not_show_the_address_of_its_endpoint(self):
        endpoint = Endpoint.objects.create(name="hook", url="https://example.com/services/s3cret")
        make_batch(1, kind="http_callback", endpoint=endpoint)
        emitter.emit_triggers(NINE)
        onlooker = staff("view_backlogrecord")
        assert onlooker.get("/api/endpoints").status_code == 403
        listed = onlooker.get("/api/records")
        assert len(listed.json()["items"]) == 1
        assert "s3cret" not in listed.content.decode()

    @pytest.mark.parametrize(("late", "closes_at"), [("deliver", None), ("drop", NINE + HOUR)])
    def test_has_the_rules_of_its_schedule_and_starts_at_the_trigger(self, late, closes_at):
        """It closes with its window only if what is late is dropped."""
        throttle, retry_policy = make_throttle(3), make_retry_policy()
        rules = {"throttle": throttle, "retry_policy": retry_policy, "priority": 7}
        schedule = make_batch(1, **rules, window_for=3600, late=late)
        emitter.emit_triggers(NINE + SECOND)
        event = BacklogRecord.objects.get()
        assert (event.lane, event.retry_policy, event.priority) == (make_lane(throttle), retry_policy, 7)
        assert (event.origin_id, event.trigger_at, event.closes_at) == (schedule.pk, NINE, closes_at)
        assert (event.status, event.waiting_for, event.run_after) == (Status.READY, None, NINE)
        assert Trigger.objects.get().closes_at == NINE + HOUR

    def test_waits_for_its_start_if_it_is_staggered(self):
        schedule = make_batch(5, pk=1, window_for=3600, stagger="even", payload_template="$run_after")
        emitter.emit_triggers(NINE)
        starts = [NINE + timedelta(seconds=after) for after in offsets(5, 3600, schedule.pk)]
        events = list(BacklogRecord.objects.order_by("pk"))
        assert [event.run_after for event in events] == starts
        assert {(event.status, event.waiting_for) for event in events} == {(Status.WAITING, WaitingFor.START)}
        assert [event.payload["body"][:19] for event in events] == [f"{start:%Y-%m-%dT%H:%M:%S}" for start in starts]


class TestATrigger:
    def test_yields_so_many_events_once_and_is_written_down(self):
        make_batch(3, catch_up_for=86_400)
        assert [emitter.emit_triggers(NINE + SECOND) for _ in range(3)] == [3, 0, 0]
        trigger = Trigger.objects.get()
        assert (trigger.trigger_at, trigger.events, trigger.finished_at) == (NINE, 3, None)
        assert (trigger.seen_at, trigger.emitted_at) == (NINE + SECOND, NINE + SECOND)
        assert numbers() == [1, 2, 3]
        BacklogRecord.objects.all().delete()
        Schedule.objects.update(next_trigger_at=NINE)
        assert emitter.emit_triggers(NINE + SECOND) == 0, "its watermark was set back"

    def test_wakes_the_workers_of_its_queue(self, monkeypatch, django_capture_on_commit_callbacks):
        heard: list[str] = []
        monkeypatch.setattr(wakeups, "heard_here", heard.append)
        make_batch(2)
        with django_capture_on_commit_callbacks(execute=True):
            emitter.emit_triggers(NINE)
        assert heard == ["callbacks"]

    def test_whose_payload_does_not_render_is_skipped_and_holds_up_no_other(self):
        make_batch(name="broken", payload_template={"a": "$nothing"})
        make_batch(name="good")
        assert emitter.emit_triggers(NINE) == 3
        skipped = Trigger.objects.get(schedule__name="broken")
        assert "its payload does not render: there is no $nothing at body.a" in skipped.skipped_for
        assert skipped.finished_at == NINE
        assert "broken, trigger of 2026-03-02 09:00:00 UTC: emitted nothing" in lines("skipped")[0]

    def test_whose_events_the_database_refuses_is_skipped_and_holds_up_no_other(self, monkeypatch):
        real = events._compiled

        def with_a_nul(schedule, trigger_at):
            """PostgreSQL takes none in JSON."""
            made = real(schedule, trigger_at)
            nul = templates.CompiledTemplate((made.texts[0].replace("broken", "\\u0000"), *made.texts[1:]), made.gaps)
            return nul if schedule.name == "broken" else made

        monkeypatch.setattr(events, "_compiled", with_a_nul)
        make_batch(name="broken")
        make_batch(name="good")
        assert emitter.emit_triggers(NINE) == 3
        assert "its events cannot be stored: " in Trigger.objects.get(schedule__name="broken").skipped_for
        assert numbers() == [1, 2, 3]

    def test_of_an_unregistered_provider_is_skipped(self):
        make_schedule(provider="unknown", next_trigger_at=NINE)
        assert emitter.emit_triggers(NINE) == 0
        assert "no provider 'unknown'" in Trigger.objects.get().skipped_for


class TestAHugeBatch:
    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch):
        monkeypatch.setattr(chunks, "CHUNK", 4)

    def test_comes_in_chunks_each_of_which_goes_on_where_the_last_one_ended(self, caplog):
        make_batch(10)
        emitter.emit_triggers(NINE, seconds=0)
        trigger = Trigger.objects.get()
        assert (trigger.events, trigger.emitted_at, numbers()) == (4, None, [1, 2, 3, 4])
        due = tick.look(now=NINE + SECOND)
        assert due.step.under_way
        assert due.seconds_until_next() == 0
        tick.act_on(due, now=NINE + SECOND, rescue=False, emit_for=0)
        assert numbers() == list(range(1, 9))
        tick.act_on(tick.look(now=NINE + 2 * SECOND), now=NINE + 2 * SECOND, rescue=False, emit_for=0)
        trigger.refresh_from_db()
        assert (trigger.events, trigger.emitted_at, numbers()) == (10, NINE + 2 * SECOND, list(range(1, 11)))
        assert tick.look(now=NINE + 3 * SECOND).step.is_due is False
        assert "already" not in caplog.text

    def test_takes_turns_with_the_small_ones(self):
        make_batch(100, name="huge")
        emitter.emit_triggers(NINE, seconds=0)
        make_batch(2, name="small")
        emitter.emit_triggers(NINE + SECOND, seconds=0)
        assert BacklogRecord.objects.filter(origin__name="small").count() == 2
        assert Trigger.objects.get(schedule__name="huge").events == 6

    def test_small_ones_share_a_chunk(self, django_assert_max_num_queries):
        for _ in range(4):
            make_batch(1)
        with django_assert_max_num_queries(12):
            assert emitter.emit_triggers(NINE) == 4


class TestAfterThreeDaysDown:
    NOW = NINE + 3 * DAY + HOUR

    @pytest.mark.parametrize(
        ("catch_up_for", "days", "reason"),
        [
            (None, [3], "04 09:00:00 UTC are skipped: only the last is caught up"),
            (0, [], "05 09:00:00 UTC are skipped: it does not catch up"),
            (2 * 86_400, [2, 3], "03 09:00:00 UTC are skipped: older than 172800 s"),
            (7 * 86_400, [0, 1, 2, 3], None),
        ],
    )
    def test_what_is_missed_is_caught_up_as_the_schedule_says(self, catch_up_for, days, reason):
        make_batch(2, name="daily", catch_up_for=catch_up_for)
        for _ in range(3):
            emitter.emit_triggers(self.NOW)
        triggers = [NINE + day * DAY for day in days]
        assert list(Trigger.objects.order_by("pk").values_list("trigger_at", flat=True)) == triggers
        assert list(BacklogRecord.objects.order_by("pk").values_list("trigger_at", flat=True)) == [
            trigger_at for trigger_at in triggers for _ in range(2)
        ]
        those = "of the missed triggers of daily those from 2026-03-02 09:00:00 UTC to 2026-03-"
        assert lines("missed") == ([f"{those}{reason}"] if reason else [])
        assert Schedule.objects.get().next_trigger_at == NINE + 4 * DAY

    def test_a_long_list_is_caught_up_over_several_ticks(self):
        make_batch(1, cron="* * * * *", catch_up_for=3 * 86_400, next_trigger_at=self.NOW - 250 * MINUTE)
        assert [emitter.emit_triggers(self.NOW) for _ in range(4)] == [100, 100, 51, 0]
        assert Trigger.objects.values("trigger_at").distinct().count() == 251

    def test_a_staggered_batch_is_spread_from_now_on_and_not_let_go_at_once(self):
        schedule = make_batch(4, stagger="even", window_for=3600)
        emitter.emit_triggers(self.NOW + HOUR)
        starts = [self.NOW + HOUR + timedelta(seconds=after) for after in offsets(4, 3600, schedule.pk)]
        assert list(BacklogRecord.objects.order_by("pk").values_list("run_after", flat=True)) == starts

    def test_one_that_drops_what_is_late_is_spread_over_what_is_left_of_its_window_or_skipped(self):
        make_batch(50, stagger="even", window_for=2 * 3600, late="drop")
        over = make_batch(3, window_for=1800, late="drop")
        assert emitter.emit_triggers(self.NOW) == 50
        starts = list(BacklogRecord.objects.order_by("run_after").values_list("run_after", flat=True))
        assert starts[0] >= self.NOW
        assert self.NOW + 50 * MINUTE < starts[-1] < self.NOW + HOUR
        assert Trigger.objects.get(schedule=over).skipped_for == "its window had closed before it could be emitted"


def test_a_record_of_the_same_subject_is_left_alone_and_the_others_come(caplog):
    schedule = make_batch(3)
    make_record(kind="event", subject=f"{schedule.pk}-20260302T090000Z-2")
    assert emitter.emit_triggers(NINE) == 2
    assert "1 of 3 events were on the backlog already" in caplog.text
