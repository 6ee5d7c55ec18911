"""A batch keeps to what it was begun with, whatever becomes of its schedule between two chunks."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DataError

from delivery.endpoints import Endpoints
from delivery.models import Endpoint
from jobs import rescheduling, tick
from jobs.handlers import Kind, registry
from jobs.models import BacklogRecord, Decision, Lane
from jobs.states import Status
from operations import throttles
from schedules import batches, chunks, emitter, events, providers, verbs
from schedules.editing import Schedules
from schedules.models import Schedule, Trigger
from schedules.stagger import offsets
from tests.factories import NOON, make_lane, make_retry_policy, make_schedule, make_throttle

pytestmark = pytest.mark.django_db

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
NINE = NOON.replace(hour=9)
CHUNK, COUNT = 4, 10
ALL = list(range(1, COUNT + 1))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", CHUNK)
    kinds = {"event": Kind("event", home_queue="callbacks"), "other": Kind("other", home_queue="backups")}
    monkeypatch.setattr(registry, "kinds", {**registry.kinds, **kinds})


def begin(**fields: Any) -> Schedule:
    """A batch of ten events, of which four are out."""
    values = {"kind": "event", "provider": "", "event_count": COUNT, "next_trigger_at": NINE}
    schedule = make_schedule(**(values | fields))
    emit_a_chunk()
    assert numbers() == ALL[:CHUNK]
    return schedule


def emit_a_chunk() -> None:
    emitter.emit_triggers(NINE, seconds=0)


def emit_the_rest() -> None:
    emitter.emit_triggers(NINE + SECOND)


def records() -> list[BacklogRecord]:
    return list(BacklogRecord.objects.order_by("pk"))


def numbers() -> list[int]:
    return [record.payload["number"] for record in records()]


def of_each(fact: Callable[[BacklogRecord], object]) -> list[object]:
    """Each value of that fact among the events, once."""
    found: list[object] = []
    for record in records():
        if (value := fact(record)) not in found:
            found.append(value)
    return found


class TestAnEditBetweenTwoChunks:
    @pytest.mark.parametrize("count", [2, 100])
    @pytest.mark.parametrize("is_deleted", [False, True])
    def test_of_whatever_they_are_made_of_changes_none_of_them(self, count: int, is_deleted: bool) -> None:
        endpoint, other = (Endpoint.objects.create(name=name, url="https://example.com/") for name in ("a", "b"))
        throttle, endpoint_id = make_throttle(3), endpoint.pk
        schedule = begin(
            name="before", payload_template={"to": "$schedule", "in": "$zone", "nr": "$number"}, endpoint=endpoint,
            throttle=throttle, priority=7, window_for=3600, late="drop",
        )  # fmt: skip
        lane = make_lane(throttle)
        edits = {"payload_template": "$nothing", "name": "after", "zone": "Europe/Berlin", "event_count": count,
                 "kind": "other", "endpoint": other, "throttle": make_throttle(5), "priority": 1, "late": "deliver",
                 "window_for": 0}  # fmt: skip
        Schedule.objects.update(**edits)
        if is_deleted:
            endpoint.delete()
            throttle.delete()
        emit_the_rest()
        assert numbers() == ALL
        assert [record.subject for record in records()] == [f"{schedule.pk}-20260302T090000Z-{nr}" for nr in ALL]
        bodies = [record.payload["body"] for record in records()]
        assert bodies == [{"to": "before", "in": "UTC", "nr": number} for number in ALL]
        payload = of_each(lambda record: [record.payload[name] for name in ("schedule", "count", "endpoint")])
        assert payload == [["before", COUNT, endpoint_id]]
        assert of_each(lambda record: (record.kind, record.queue, record.priority, record.closes_at)) == [
            ("event", "callbacks", 7, NINE + HOUR)
        ]
        trigger = Trigger.objects.get()
        assert (trigger.events, trigger.skipped_for) == (COUNT, "")
        if not is_deleted:
            assert of_each(lambda record: record.lane) == [lane]
            assert Lane.objects.count() == 1

    @pytest.mark.parametrize(
        "edit", [{"window_for": 60}, {"stagger": "none"}, {"late": "drop", "window_for": 120}], ids=str
    )
    def test_of_window_and_stagger_moves_no_start_and_no_close(self, edit: dict[str, Any]) -> None:
        schedule = begin(window_for=3600, stagger="even")
        Schedule.objects.update(**edit)
        emit_the_rest()
        starts = [NINE + timedelta(seconds=after) for after in offsets(COUNT, 3600, schedule.pk)]
        assert [record.run_after for record in records()] == starts
        assert of_each(lambda record: record.closes_at) == [None]
        assert Trigger.objects.get().closes_at == NINE + HOUR

    def test_of_stagger_lets_what_was_to_go_at_once_go_at_once(self) -> None:
        begin(window_for=3600)
        Schedule.objects.update(stagger="even")
        emit_the_rest()
        assert of_each(lambda record: (record.status, record.run_after)) == [(Status.READY, NINE)]

    def test_to_a_provider_lets_it_yield_later_batches_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        monkeypatch.setitem(providers.known, "test", lambda triggers, now: asked.append(triggers) or 0)
        schedule = begin()
        Schedule.objects.update(provider="test", event_count=None, next_trigger_at=NINE)  # which asks again
        emit_a_chunk()
        assert (numbers(), asked) == (ALL[: 2 * CHUNK], [])
        emit_the_rest()
        assert (numbers(), asked) == (ALL, [])
        emitter.emit_triggers(NINE + 24 * HOUR)
        schedule.refresh_from_db()
        assert asked == [[(schedule, NINE + 24 * HOUR)]]

    def test_while_it_is_paused_lets_it_go_on_as_before(self) -> None:
        schedule = begin(payload_template="before")
        verbs.pause(schedule, NINE)
        Schedule.objects.update(payload_template="after")
        emit_the_rest()
        assert (numbers(), of_each(lambda record: record.payload["body"])) == (ALL, ["before"])

    @pytest.mark.parametrize("edited", [True, False])
    @pytest.mark.parametrize("followed_after", [1, 2])
    def test_of_the_retry_policy_reaches_all_of_them(self, edited: bool, followed_after: int) -> None:
        before, after = make_retry_policy(), make_retry_policy() if edited else None
        schedule = begin(retry_policy=before)
        Schedule.objects.update(retry_policy=after)
        if followed_after > 1:
            emit_a_chunk()
        rescheduling.follow(schedule, now=NINE)
        emit_the_rest()
        assert numbers() == ALL
        assert of_each(lambda record: record.retry_policy) == [after]


class TestTheFrozenConfig:
    def test_is_written_with_the_first_chunk_and_cleared_with_the_last(self) -> None:
        begin(payload_template={"a": [1, 2.5, None, "ü"]}, priority=3)
        trigger = Trigger.objects.get()
        assert set(trigger.frozen_config) == set(events.FROZEN_FIELDS)
        assert trigger.frozen_config["payload_template"] == {"a": [1, 2.5, None, "ü"]}
        Schedule.objects.update(priority=4)
        emit_a_chunk()
        trigger.refresh_from_db()
        assert (trigger.events, trigger.frozen_config["priority"]) == (8, 3)
        emit_the_rest()
        trigger.refresh_from_db()
        assert (trigger.emitted_at, trigger.frozen_config) == (NINE + SECOND, None)

    def test_of_a_batch_that_is_one_chunk_is_never_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "frozen_config_of", lambda schedule: pytest.fail("asked for"))
        make_schedule(kind="event", provider="", event_count=CHUNK, next_trigger_at=NINE)
        emit_a_chunk()
        assert Trigger.objects.get().emitted_at == NINE

    def test_names_every_field_of_the_schedule_that_makes_a_difference(self) -> None:
        makes_none = {
            "id", "origin_id", "cron", "provider", "overlap", "catch_up_for", "enabled", "next_trigger_at",
            "retry_policy_id", "paused_until", "paused_why",
        }  # fmt: skip
        assert set(events.FROZEN_FIELDS) == {field.attname for field in Schedule._meta.concrete_fields} - makes_none

    def test_of_a_cancelled_batch_brings_no_more_of_it(self) -> None:
        begin()
        assert verbs.cancel_batch(Trigger.objects.get(), NINE) == CHUNK
        emit_the_rest()
        trigger = Trigger.objects.get()
        assert (trigger.events, trigger.emitted_at, trigger.finished_at) == (CHUNK, NINE, NINE)
        assert trigger.frozen_config is None
        assert numbers() == ALL[:CHUNK]

    def test_keeps_its_throttle_from_being_removed(self) -> None:
        throttle = make_throttle(5)
        begin(throttle=throttle)
        self.end_what_is_out()
        with pytest.raises(throttles.InUse, match="a batch that needs it is being emitted"):
            throttles.remove([throttle])
        emit_the_rest()
        self.end_what_is_out()
        throttles.remove([throttle])

    def test_keeps_its_endpoint_from_being_removed(self) -> None:
        endpoint = Endpoint.objects.create(name="first", url="https://first.example.com/")
        begin(endpoint=endpoint)
        self.end_what_is_out()
        assert "is being emitted" in Endpoints().uses(endpoint)[0]
        emit_the_rest()
        assert Endpoints().uses(endpoint) == []

    def test_keeps_its_schedule_from_being_given_a_provider(self) -> None:
        schedule = begin()
        schedule.event_count, schedule.provider = None, "assignments"
        assert "is being put on the backlog" in Schedules().problems(schedule, {"provider"})["provider"]
        emit_the_rest()
        assert "provider" not in Schedules().problems(schedule, {"provider"})

    @staticmethod
    def end_what_is_out() -> None:
        """And let the schedule name nothing any more."""
        Schedule.objects.update(throttle=None, endpoint=None)
        BacklogRecord.objects.update(status=Status.SUCCEEDED, finished_at=NINE)


class TestABatchThatCannotGoOn:
    @pytest.fixture(autouse=True)
    def _half_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        begin(name="broken")
        real = chunks._insert

        def insert(parts: list[events.BatchPart], now: Any) -> int:
            if any(part.batch.schedule.name == "broken" for part in parts):
                raise DataError("too large")
            return real(parts, now)

        monkeypatch.setattr(chunks, "_insert", insert)
        emit_the_rest()

    def test_is_what_is_out_and_not_skipped(self) -> None:
        trigger = Trigger.objects.get()
        assert (trigger.events, trigger.skipped_for, trigger.frozen_config) == (CHUNK, "", None)
        assert (trigger.emitted_at, trigger.finished_at) == (NINE + SECOND, None)
        assert not tick.look(now=NINE + SECOND).step.is_due
        [text] = Decision.objects.filter(what="cut short").values_list("text", flat=True)
        assert text.endswith("ended after 4 events: its events cannot be stored: too large")
        BacklogRecord.objects.update(status=Status.SUCCEEDED, finished_at=NINE + 2 * SECOND)
        batches.finish_ended(NINE + 3 * SECOND)
        assert Trigger.objects.get().finished_at == NINE + 3 * SECOND
