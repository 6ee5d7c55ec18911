"""The API of the backlog, events among it: who may, what it tells, what it changes, what it refuses."""

from typing import Any

import pytest
from django.db.models import QuerySet

from api import pages, records
from api.resources import Resource
from audit.models import AuditEntry
from delivery.models import Endpoint
from jobs import backlog
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog.dead_letters import group_id
from tests.api.asking import Program, found, ids_of, problem_of
from tests.factories import NOON, make_record, make_throttle, status_of
from tests.schedules.event_records import (
    HOUR,
    attempt,
    delivered,
    make_event,
    make_event_schedule,
    make_trigger,
    refused,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kind_of_tests")]

SECRET_URL = "https://example.com/services/T0/B1/s3cret?key=k3y"


def ids(program: Program, **query: Any) -> list[int]:
    return ids_of(program.get("records", **query))


def retried(program: Program, **body: Any) -> Any:
    return found(program.post("records/retry", body))


def sends(event: BacklogRecord, **payload: Any) -> None:
    BacklogRecord.objects.filter(pk=event.pk).update(payload=event.payload | payload)


class TestTheList:
    def test_facts_are_those_of_the_command_without_the_lease_token(self, program: Program) -> None:
        make_record(Status.RUNNING)
        [facts] = found(program.get("records"))["items"]
        assert (facts["status"], facts["waiting_for"], facts["delivery"]) == ("running", None, None)
        assert "lease_token" not in facts

    def test_an_event_tells_when_it_was_to_start_and_what_was_answered(self, program: Program) -> None:
        endpoint = Endpoint.objects.create(name="receiver", url=SECRET_URL)
        schedule = make_event_schedule(name="nightly", endpoint=endpoint)
        make_trigger(schedule)
        sends(delivered(schedule), endpoint=endpoint.pk, url=None)
        [facts] = found(program.get("records"))["items"]
        assert facts["subject"] == f"{schedule.pk}-20260302T120000Z-1"
        assert (facts["finished_at"], facts["schedule_id"]) == ("2026-03-02T12:00:02Z", schedule.pk)
        assert facts["delivery"] == {
            "schedule": "nightly", "launch_at": "2026-03-02T12:00:00Z", "lag": 1.0, "code": 200, "seconds": 0.123,
            "endpoint": endpoint.pk, "endpoint_name": "receiver",
        }  # fmt: skip

    def test_of_a_url_no_more_than_its_origin_is_told(self, program: Program) -> None:
        event = refused(make_event_schedule())
        sends(event, url=SECRET_URL)
        for answer in (program.get("records"), program.get(f"records/{event.pk}")):
            assert "s3cret" not in answer.content.decode()
            assert "k3y" not in answer.content.decode()
        assert found(program.get(f"records/{event.pk}"))["payload"]["url"] == "https://example.com:443"

    def test_what_a_program_enqueued_under_the_names_of_emission_is_told_all_the_same(self, program: Program) -> None:
        odd = {"event_id": 7, "schedule": ["a"], "endpoint": ["none"], "number": "x"}
        urls = ("s3cret", "https://user:s3cret@example.com/", 7, {"a": "s3cret"})
        backlog.enqueue("http_callback", [(str(number), odd | {"url": url}) for number, url in enumerate(urls)])
        for record in BacklogRecord.objects.all():
            attempt(record, error="odd", status="fine", seconds="long")
        listed = found(program.get("records", events="true"))["items"]
        assert len(listed) == len(urls)
        for facts in listed:
            delivery = facts["delivery"]
            assert (delivery["schedule"], delivery["endpoint"], delivery["code"]) == ("['a']", None, None)
            assert facts["payload"]["url"] is None

    @pytest.mark.parametrize(
        "query",
        ["limit=0", "after=x", "status=lost", "kind=nothing", "error=" + "x" * 201, "kind=%ff", "trigger_at=7",
         "schedule=0", "answer=7xx", "group=x", "state=failed"],
    )  # fmt: skip
    def test_a_bad_query_is_refused_in_the_one_shape(self, query: str, program: Program) -> None:
        problem_of(program.get(f"records?{query}"), 400, 422)

    @pytest.mark.parametrize(
        ("path", "hint"),
        [("records", "ask for less: name a status, a schedule"), ("throttles", "ask for less, by ")],
    )
    def test_a_search_that_takes_too_long_is_given_up(
        self, path: str, hint: str, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def forever(resource: Any, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
            return rows.extra(where=["pg_sleep(60) IS NOT NULL"])

        monkeypatch.setattr(pages, "PAGE_SECONDS", 0.01)
        for resource in (records.Records, Resource):
            monkeypatch.setattr(resource, "filtered", forever)
        make_record()
        make_throttle(1)
        answer = program.get(path)
        assert problem_of(answer, 503)["hint"].startswith(hint)
        assert int(answer.headers["Retry-After"]) > 0


class TestFilters:
    def test_by_status(self, program: Program) -> None:
        made = {str(status.label): make_record(status).pk for status in Status}
        assert {name: ids(program, status=name) for name in made} == {name: [pk] for name, pk in made.items()}
        unfinished = [made["waiting"], made["ready"], made["running"]]
        assert ids(program, status="unfinished", ordering="id") == unfinished

    def test_by_what_the_last_attempt_was_answered(self, program: Program) -> None:
        schedule = make_event_schedule()
        expected = {"2xx": delivered(schedule, 1).pk, "none": refused(schedule, 5, None).pk}
        expected |= {f"{code // 100}xx": refused(schedule, code, code).pk for code in (307, 404, 503)}
        attempt(BacklogRecord.objects.get(pk=expected["none"]), 0, error="broken", status=500, seconds=1)
        make_event(schedule, 6)
        attempt(make_event(schedule, 7, Status.SUCCEEDED))
        attempt(make_record(Status.FAILED, kind="backup"), error="of no event", status=404)
        assert {answer: ids(program, answer=answer) for answer in expected} == {a: [pk] for a, pk in expected.items()}

    def test_by_where_events_came_from_and_where_they_go(self, program: Program) -> None:
        mine, other = make_event_schedule(), make_event_schedule(kind="sqs_message")
        first, second = make_event(mine, 1), make_event(mine, 2, trigger_at=NOON + HOUR)
        message, backup = make_event(other, 1), make_record(kind="backup")
        sends(first, endpoint=7), sends(second, endpoint=77)
        assert ids(program, schedule=mine.pk) == [second.pk, first.pk]
        assert ids(program, trigger_at="2026-03-02T14:00:00+01:00", schedule=mine.pk) == [second.pk]
        assert ids(program, kind="sqs_message") == [message.pk]
        assert ids(program, subject=first.subject) == [first.pk]
        assert ids(program, subject=first.subject, kind="sqs_message") == []
        assert ids(program, endpoint=7) == [first.pk]
        assert ids(program, events="true") == [message.pk, second.pk, first.pk]
        assert ids(program, events="false") == [backup.pk]


class TestOneRecord:
    def test_it_comes_with_its_latest_attempts_and_why_it_does_not_run(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(records, "SHOWN_ATTEMPTS", 2)
        event = make_event(make_event_schedule(), 3, Status.WAITING, attempt=3, failures=3, last_error="HTTP 503")
        attempt(event, 1, error="boom"), attempt(event, 2, error="no answer came", seconds=5.0)
        attempt(event, 3, error="HTTP 503", status=503, seconds=0.25, bytes=9)
        facts = found(program.get(f"records/{event.pk}"))
        assert [each["number"] for each in facts["attempts"]] == [3, 2]
        assert facts["attempts"][0] == {
            "record": event.pk, "number": 3, "queue": "callbacks", "started_at": "2026-03-02T12:00:03Z",
            "ended_at": "2026-03-02T12:00:04Z", "outcome": "failed", "worker_id": 1, "error": "HTTP 503",
            "facts": {"status": 503, "seconds": 0.25, "bytes": 9},
        }  # fmt: skip
        assert (facts["status"], facts["delivery"]["code"], facts["last_error"]) == ("waiting", 503, "HTTP 503")
        assert facts["payload"]["body"] == {"shard": 3}
        assert len(facts["why"]) >= 1

    @pytest.mark.parametrize("asked", ["0", "9" * 5000, "x", "7-20260302T120000Z-1"])
    def test_an_unknown_one_is_not_there(self, asked: str, program: Program) -> None:
        problem_of(program.get(f"records/{asked}"), 404)
        for verb in ("retry", "cancel"):
            problem_of(program.post(f"records/{asked}/{verb}"), 404)

    def test_it_is_retried_and_cancelled_with_a_line_each(self, program: Program) -> None:
        record = make_record(Status.FAILED)
        assert found(program.post(f"records/{record.pk}/retry"))["ready"] == [record.pk]
        assert status_of(record) == Status.READY
        assert found(program.post(f"records/{record.pk}/cancel"))["cancelled"] == [record.pk]
        assert status_of(record) == Status.CANCELLED
        lines = AuditEntry.objects.filter(verb="did").order_by("pk").values_list("row_id", "name", "text")
        assert list(lines) == [
            (str(record.pk), f"record {record.pk}: Retry now", "1 ready"),
            (str(record.pk), f"record {record.pk}: Cancel", "1 cancelled"),
        ]


class TestRetryingMany:
    def test_by_id_with_what_became_of_each(self, program: Program) -> None:
        failed, done, running = make_record(Status.FAILED), make_record(Status.SUCCEEDED), make_record(Status.RUNNING)
        old = make_record(Status.FAILED, subject="a")
        newer = make_record(subject="a")
        assert retried(program, ids=[failed.pk, done.pk, running.pk, old.pk, 10**15]) == {
            "ready": [failed.pk], "running": [running.pk], "succeeded": [done.pk],
            "superseded": {str(old.pk): newer.pk}, "missing": [10**15], "next": None,
        }  # fmt: skip
        assert status_of(failed) == Status.READY

    def test_by_the_answer_of_an_endpoint_that_was_down(self, program: Program) -> None:
        schedule = make_event_schedule()
        down, gone, elsewhere = refused(schedule, 1, 503), refused(schedule, 2, 410), refused(schedule, 3, 503)
        waiting = make_event(schedule, 4, Status.WAITING, attempt=1, failures=1)
        attempt(waiting, error="HTTP 503", status=503, seconds=0.25)
        for event, endpoint in ((down, 7), (gone, 7), (elsewhere, 8), (waiting, 7)):
            sends(event, endpoint=endpoint)
        asked = {"endpoint": 7, "answer": "5xx"}
        assert retried(program, **asked, dry_run=True) == {"would_retry": {"failed": 1}, "next": None}
        counted = retried(program, **asked, status="unfinished", dry_run=True)
        assert counted == {"would_retry": {"waiting": 1}, "next": None}
        assert status_of(down) == Status.FAILED
        assert not AuditEntry.objects.filter(verb="did").exists()
        assert retried(program, **asked)["ready"] == [down.pk], "without a status what failed is meant"

    def test_a_group_is_retried_and_nothing_else(self, program: Program) -> None:
        like = [make_record(Status.FAILED, last_error=f"disk {number} is full").pk for number in range(3)]
        other = make_record(Status.FAILED, last_error="boom")
        waiting = make_record(Status.WAITING, last_error="disk 1 is full")
        [group] = [each for each in found(program.get("dead-letters"))["groups"] if each["count"] == 3]
        assert (group["group"], group["says"]) == (group_id("disk N is full"), "disk N is full")
        assert retried(program, group=group["group"])["ready"] == like
        assert (status_of(other), status_of(waiting)) == (Status.FAILED, Status.WAITING)

    def test_more_than_fit_one_request_are_gone_on_with(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(records, "MOST_AT_ONCE", 2)
        rows, after = [make_record(Status.CANCELLED).pk for _ in range(5)], 0
        for expected in (rows[:2], rows[2:4], rows[4:]):
            answer = retried(program, status="cancelled", after=after)
            assert answer["ready"] == expected
            after = answer["next"]
        assert after is None

    def test_what_stopped_being_failed_meanwhile_is_left_alone(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another request retries it between the choice and the lock, and it fails again and waits."""
        record = make_record(Status.FAILED, last_error="boom")
        choose = records._following

        def then_it_moves(*given: Any) -> list[int]:
            chosen = choose(*given)
            backlog.retry([record.pk])
            return chosen

        monkeypatch.setattr(records, "_following", then_it_moves)
        answer = retried(program, error="boom")
        assert (answer["ready"], answer["missing"]) == ([], [])

    @pytest.mark.parametrize(
        "body",
        [
            {}, {"ids": []}, {"ids": [1], "kind": "test"}, {"ids": list(range(1, 1002))}, {"ids": [True]}, {"ids": [0]},
            {"ids": ["1"]}, {"kinds": "test"}, {"kind": "nothing"}, {"error": "\0"}, {"status": "lost"}, {"group": "x"},
            {"kind": "test", "dry_run": 1}, {"kind": ["test"]}, {"status": "failed", "after": -1}, {"schedule": "7"},
            "[]", "",
        ],
    )  # fmt: skip
    def test_a_bad_choice_is_refused_and_nothing_is_retried(self, body: Any, program: Program) -> None:
        record = make_record(Status.FAILED)
        problem_of(program.post("records/retry", body), 400 if body == "[]" else 422)
        assert status_of(record) == Status.FAILED
