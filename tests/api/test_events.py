"""Events over the API: what is told of them, which are found, what is done to them, and by whom."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from api import choosing
from delivery.models import Endpoint, Event
from jobs import backlog
from jobs.models import BacklogRecord
from jobs.states import Status
from tests.api.asking import Program, fields_of, make_user, problem_of
from tests.factories import make_record
from tests.schedules.event_records import attempt, delivered, make_event, make_event_schedule, make_trigger, refused

pytestmark = pytest.mark.django_db

SECRET_URL = "https://example.com/services/T0/B1/s3cret?key=k3y"


@pytest.fixture
def program() -> Program:
    return Program()


def looker() -> Program:
    return Program(make_user("view_backlogrecord"), ("read",))


def told(answer: Any) -> Any:
    assert answer.status_code == 200, answer.content
    return answer.json()


def ids(program: Program, **query: Any) -> list[int]:
    return [each["id"] for each in told(program.get("events", **query))["items"]]


def status_of(record: BacklogRecord) -> Status:
    return Status(BacklogRecord.objects.values_list("status", flat=True).get(pk=record.pk))


class TestWhoMay:
    @pytest.mark.parametrize("path", ["events", "events/1"])
    def test_nobody_looks_without_the_permission_to_look_at_records(self, path: str) -> None:
        problem_of(Program().client.get(f"/api/{path}"), 401)
        problem_of(Program(make_user("view_endpoint", "view_schedule")).get(path), 403)
        problem_of(Program(make_user(is_superuser=True), ("write", "operate")).get(path), 403)
        assert looker().get(path).status_code == (404 if path == "events/1" else 200)

    @pytest.mark.parametrize("verb", ["retry", "cancel"])
    def test_to_act_takes_the_scope_and_the_permission(self, verb: str) -> None:
        event = refused(make_event_schedule())
        for who in (looker(), Program(scopes=("read", "write")), Program(make_user("view_backlogrecord"))):
            problem_of(who.post(f"events/{event.pk}/{verb}"), 403)
        problem_of(looker().post("events/retry", {"ids": [event.pk]}), 403)
        assert status_of(event) == Status.FAILED
        assert told(Program(make_user("change_backlogrecord")).post(f"events/{event.pk}/{verb}"))


class TestTheList:
    def test_a_delivered_event_tells_when_and_with_which_answer(self, program: Program) -> None:
        endpoint = Endpoint.objects.create(name="receiver", url=SECRET_URL)
        schedule = make_event_schedule(endpoint=endpoint)
        make_trigger(schedule)
        event = delivered(schedule)
        Event.objects.filter(pk=event.pk).update(payload=event.payload | {"endpoint": endpoint.pk, "url": None})
        assert told(program.get("events"))["items"] == [
            {
                "id": event.pk,
                "event_id": f"{schedule.pk}-20260302T120000Z-1",
                "kind": "http_callback",
                "state": "delivered",
                "status": "succeeded",
                "waiting_for": None,
                "schedule": schedule.name,
                "schedule_id": schedule.pk,
                "trigger_at": "2026-03-02T12:00:00Z",
                "launch_at": "2026-03-02T12:00:00Z",
                "run_after": "2026-03-02T12:00:00Z",
                "delivered_at": "2026-03-02T12:00:02Z",
                "finished_at": "2026-03-02T12:00:02Z",
                "lag": 1.0,
                "code": 200,
                "seconds": 0.123,
                "attempt": 1,
                "failures": 0,
                "error": "",
                "endpoint": endpoint.pk,
                "endpoint_name": "receiver",
                "url": None,
            }
        ]

    def test_records_of_other_kinds_are_no_events(self, program: Program) -> None:
        backup = make_record(kind="backup")
        assert ids(program) == []
        for answer in (program.get(f"events/{backup.pk}"), program.post(f"events/{backup.pk}/cancel")):
            assert "no such event" in problem_of(answer, 404)["detail"]
        assert status_of(backup) == Status.READY

    def test_of_a_url_no_more_than_its_origin_is_told(self, program: Program) -> None:
        event = refused(make_event_schedule())
        Event.objects.filter(pk=event.pk).update(payload=event.payload | {"url": SECRET_URL})
        for answer in (program.get("events"), program.get(f"events/{event.pk}")):
            assert "s3cret" not in answer.content.decode()
            assert "k3y" not in answer.content.decode()
        assert told(program.get(f"events/{event.pk}"))["url"] == "https://example.com:443"

    def test_what_a_program_enqueued_under_the_names_of_emission_is_told_all_the_same(self, program: Program) -> None:
        odd = {"event_id": 7, "schedule": ["a"], "endpoint": "none", "url": {"a": 1}, "number": "x"}
        backlog.enqueue("http_callback", [("odd", odd)])
        pk = Event.objects.get().pk
        event = told(program.get(f"events/{pk}"))
        assert (event["event_id"], event["endpoint"], event["schedule"]) == ("7", None, "['a']")
        assert ids(program) == [pk]

    def test_many_cost_no_more_queries_than_one(
        self, program: Program, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        schedule = make_event_schedule()
        make_trigger(schedule)
        delivered(schedule, 1)
        ids(program)  # its token notes once that it is used
        with CaptureQueriesContext(connection) as first:
            ids(program)
        for number in range(2, 8):
            delivered(schedule, number)
        with django_assert_num_queries(len(first)):
            assert len(ids(program)) == 7

    def test_a_list_that_takes_too_long_says_how_to_ask_for_less(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(choosing, "PAGE_SECONDS", 0.01)
        monkeypatch.setattr(
            "api.events.Events.filtered", lambda self, rows, asked: rows.extra(where=["pg_sleep(60) IS NOT NULL"])
        )
        delivered(make_event_schedule())
        assert "name a state or a schedule" in problem_of(program.get("events"), 503)["hint"]


class TestOneEvent:
    def test_it_comes_with_each_attempt_why_it_waits_and_what_is_delivered(self, program: Program) -> None:
        event = make_event(make_event_schedule(), 3, Status.WAITING, attempt=2, failures=2, last_error="HTTP 503")
        attempt(event, 1, error="nobody answered", seconds=5.0)
        attempt(event, 2, error="HTTP 503", status=503, seconds=0.25, bytes=9)
        found = told(program.get(f"events/{event.pk}"))
        assert found["attempts"] == [
            {
                "number": 1, "started_at": "2026-03-02T12:00:01Z", "ended_at": "2026-03-02T12:00:02Z",
                "outcome": "failed", "code": None, "seconds": 5.0, "worker_id": 1, "error": "nobody answered",
                "facts": {"seconds": 5.0},
            },
            {
                "number": 2, "started_at": "2026-03-02T12:00:02Z", "ended_at": "2026-03-02T12:00:03Z",
                "outcome": "failed", "code": 503, "seconds": 0.25, "worker_id": 1, "error": "HTTP 503",
                "facts": {"status": 503, "seconds": 0.25, "bytes": 9},
            },
        ]  # fmt: skip
        assert (found["state"], found["attempt"], found["code"], found["error"]) == ("unfinished", 2, 503, "HTTP 503")
        assert found["why"]
        assert found["payload"]["body"] == {"shard": 3}

    @pytest.mark.parametrize(
        "asked",
        [
            "0",
            "7",
            "x",
            "7-20260302T120000Z-1",
        ],
    )
    @pytest.mark.parametrize("verb", ["", "/retry", "/cancel"])
    def test_one_that_is_not_there_is_not_found(self, asked: str, verb: str, program: Program) -> None:
        problem_of(program.post(f"events/{asked}{verb}") if verb else program.get(f"events/{asked}"), 404)

    def test_it_is_retried_and_cancelled_with_a_line_each(self, program: Program) -> None:
        event = refused(make_event_schedule())
        assert told(program.post(f"events/{event.pk}/retry"))["ready"] == [event.pk]
        assert status_of(event) == Status.READY
        assert told(program.post(f"events/{event.pk}/cancel"))["cancelled"] == [event.pk]
        assert status_of(event) == Status.CANCELLED
        lines = LogEntry.objects.order_by("pk").values_list("object_id", "object_repr", "change_message")
        assert list(lines) == [
            (str(event.pk), f"record {event.pk}: Retry now", "1 ready"),
            (str(event.pk), f"record {event.pk}: Cancel", "1 cancelled"),
        ]


class TestRetryingMany:
    def test_by_id_with_what_became_of_each(self, program: Program) -> None:
        schedule = make_event_schedule()
        failed, done, backup = refused(schedule, 1), delivered(schedule, 2), make_record(Status.FAILED, kind="backup")
        answer = told(program.post("events/retry", {"ids": [failed.pk, done.pk, backup.pk]}))
        assert (answer["ready"], answer["succeeded"], answer["missing"]) == ([failed.pk], [done.pk], [backup.pk])
        assert status_of(backup) == Status.FAILED

    def test_without_a_state_what_failed_is_meant(self, program: Program) -> None:
        schedule = make_event_schedule()
        failed = refused(schedule, 1)
        cancelled = make_event(schedule, 2, Status.CANCELLED)
        assert told(program.post("events/retry", {"schedule": schedule.pk}))["ready"] == [failed.pk]
        asked = {"schedule": schedule.pk, "state": "cancelled"}
        assert told(program.post("events/retry", asked))["ready"] == [cancelled.pk]

    def test_by_the_answer_of_an_endpoint_that_was_down(self, program: Program) -> None:
        schedule = make_event_schedule()
        down, gone, elsewhere = refused(schedule, 1, 503), refused(schedule, 2, 410), refused(schedule, 3, 503)
        waiting = make_event(schedule, 4, Status.WAITING, attempt=1, failures=1)
        attempt(waiting, error="HTTP 503", status=503, seconds=0.25)
        for event, endpoint in ((down, 7), (gone, 7), (elsewhere, 8), (waiting, 7)):
            Event.objects.filter(pk=event.pk).update(payload=event.payload | {"endpoint": endpoint})
        asked = {"endpoint": 7, "answer": "5xx"}
        counted = told(program.post("events/retry", asked | {"dry_run": True}))
        assert counted == {"would_retry": {"failed": 1}, "next": None}
        counted = told(program.post("events/retry", asked | {"state": "unfinished", "dry_run": True}))
        assert list(counted["would_retry"].values()) == [1]
        assert status_of(down) == Status.FAILED
        assert told(program.post("events/retry", asked))["ready"] == [down.pk]

    @pytest.mark.parametrize(
        "body",
        [{}, {"ids": ["1"]}, {"kind": "backup"}, {"state": "failed", "after": -1},],
    )  # fmt: skip
    def test_a_bad_choice_is_refused_and_nothing_is_retried(self, body: Any, program: Program) -> None:
        event = refused(make_event_schedule())
        fields_of(program.post("events/retry", body))
        assert status_of(event) == Status.FAILED
