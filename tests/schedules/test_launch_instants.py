"""The launch instant of an event is known for as long as its trigger is kept, however its schedule was edited."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from operations.backlog.facts import launch_instants
from schedules import chunks, emitter, events, providers
from schedules.models import Schedule, Trigger
from tests.factories import NOON, make_record, make_schedule

pytestmark = pytest.mark.django_db

NINE = NOON.replace(hour=9)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)

windows = st.one_of(st.just(0), st.integers(1, 7200), st.integers(1, 31 * 86_400))
ways = st.fixed_dictionaries(
    {
        "event_count": st.integers(1, 60),
        "window_for": windows,
        "stagger": st.sampled_from(["none", "even"]),
        "late": st.sampled_from(["deliver", "drop"]),
    }
)
seen_after = st.one_of(
    st.floats(0, 90), st.sampled_from([89.999, 90, 90.001]), st.floats(90, 86_000)
).map(lambda seconds: timedelta(seconds=seconds))  # fmt: skip


def emit(schedule: Schedule, seen: timedelta, edit: dict[str, Any] | None = None) -> dict[int, Any]:
    """A batch of it, edited after each chunk. Returns the id of each event → the instant that it was emitted with."""
    emitter.emit_triggers(NINE + seen, seconds=0)
    while Trigger.objects.filter(schedule=schedule, finished_at=None, emitted_at=None).exists():
        Schedule.objects.filter(pk=schedule.pk).update(**edit or {})
        emitter.emit_triggers(NINE + seen + SECOND, seconds=0)
    Schedule.objects.filter(pk=schedule.pk).update(**edit or {})
    return dict(BacklogRecord.objects.filter(origin=schedule).values_list("pk", "run_after"))


def tried(ids: dict[int, Any]) -> list[BacklogRecord]:
    """These events once they do not tell themselves when they were to start."""
    BacklogRecord.objects.filter(pk__in=ids).update(
        status=Status.WAITING, waiting_for=WaitingFor.BACKOFF, run_after=NOON + 900 * HOUR, attempt=1
    )
    return list(BacklogRecord.objects.filter(pk__in=ids))


def make_events(**fields: Any) -> Schedule:
    values = {"kind": "http_callback", "provider": "", "event_count": 10, "next_trigger_at": NINE}
    return make_schedule(**(values | fields))


class TestLaunchInstants:
    @given(ways, seen_after, st.one_of(st.none(), ways), st.integers(3, 70), st.sampled_from(["allow", "queue"]))
    def test_are_those_that_the_events_were_emitted_with(
        self, monkeypatch: pytest.MonkeyPatch, way: dict, seen: timedelta, edit: dict | None, chunk: int, overlap: str
    ) -> None:
        monkeypatch.setattr(chunks, "CHUNK", chunk)
        schedule = make_events(overlap=overlap, **way)
        emitted = emit(schedule, seen, edit)
        assert launch_instants(tried(emitted)) == emitted

    def test_count_from_what_the_trigger_says_whatever_is_late_by_now(self, monkeypatch: pytest.MonkeyPatch) -> None:
        emitted = emit(make_events(), HOUR)
        assert set(emitted.values()) == {NINE + HOUR}
        monkeypatch.setattr(events, "ON_TIME_FOR", 2 * HOUR)
        assert launch_instants(tried(emitted)) == emitted

    def test_do_not_read_what_the_batch_is_made_of(self, django_assert_num_queries: Any) -> None:
        emitted = emit(make_events(payload_template={"a": "b" * 1000}), SECOND)
        found = tried(emitted)
        with django_assert_num_queries(1) as asked:
            assert launch_instants(found) == emitted
        assert "frozen_config" not in asked.captured_queries[0]["sql"]
        assert "payload_template" not in asked.captured_queries[0]["sql"]


class TestEventsOfAProvider:
    @pytest.fixture(autouse=True)
    def _provider(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def provide(triggers: list[Any], now: Any) -> int:
            for schedule, trigger_at in triggers:
                make_record(
                    kind="http_callback",
                    origin=schedule,
                    trigger_at=trigger_at,
                    payload={"number": 1},
                    run_after=trigger_at,
                )
            return len(triggers)

        monkeypatch.setitem(providers.known, "test", provide)

    @pytest.mark.parametrize(("seen", "begins_at"), [(SECOND, NINE), (HOUR, NINE + HOUR)])
    def test_begin_with_their_trigger_or_when_it_was_seen(self, seen: timedelta, begins_at: Any) -> None:
        make_events(provider="test", event_count=None, stagger="even", window_for=3600)
        emitter.emit_triggers(NINE + seen)
        trigger = Trigger.objects.get()
        assert (trigger.begins_at, trigger.stagger, trigger.frozen_config) == (begins_at, "none", None)
        assert set(launch_instants(BacklogRecord.objects.all()).values()) == {begins_at}
