"""The API of the backlog: who may, what it tells, what it changes, what it refuses, and never a 500."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.test import Client

from api import choosing, records, retrying
from jobs import backlog
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord, Breaker, RetryPolicy
from jobs.states import AttemptOutcome, Status, WaitingFor
from operations.backlog.dead_letters import group_id
from tests.api.asking import problem_of
from tests.factories import NOON, make_record
from tests.people import staff

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.kinds, "test", Kind("test"))


@pytest.fixture
def operator() -> Client:
    return staff("view_backlogrecord", "change_backlogrecord")


def get(client: Client, path: str, **query: Any) -> Any:
    return told(client.get(f"/api/{path}", query))


def post(client: Client, path: str, body: Any = None) -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    return told(client.post(f"/api/{path}", text if body is not None else None, content_type="application/json"))


def told(answer: Any) -> Any:
    assert answer.status_code == 200, answer.content
    return answer.json()


def refused(client: Client, path: str, body: Any, *statuses: int) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    answer = client.post(f"/api/{path}", text, content_type="application/json")
    return problem_of(answer, *(statuses or (422,)))


def status_of(record: BacklogRecord) -> Status:
    return Status(BacklogRecord.objects.values_list("status", flat=True).get(pk=record.pk))


class TestWhoMay:
    PATHS = ("records", "records/1", "dead-letters", "retry-policies", "breakers")

    @pytest.mark.parametrize("path", PATHS)
    def test_nobody_looks_without_a_session_of_staff_and_the_permission(self, path: str, client: Client) -> None:
        assert client.get(f"/api/{path}").status_code == 401
        client.force_login(User.objects.create_user("anna"))
        assert client.get(f"/api/{path}").status_code == 403
        assert staff().get(f"/api/{path}").status_code == 403

    def test_who_may_look_may_change_nothing(self) -> None:
        record, onlooker = make_record(Status.FAILED), staff("view_backlogrecord")
        assert get(onlooker, "records")["items"][0]["id"] == record.pk
        for path in ("records/retry", f"records/{record.pk}/retry", f"records/{record.pk}/cancel"):
            refused(onlooker, path, {"ids": [record.pk]}, 403)
        assert status_of(record) == Status.FAILED

    def test_a_change_needs_the_csrf_token(self, operator: Client) -> None:
        record = make_record(Status.FAILED)
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = operator.cookies
        refused(strict, f"records/{record.pk}/retry", {}, 403)
        assert status_of(record) == Status.FAILED


class TestTheList:
    def test_the_latest_come_first_page_by_page(self, operator: Client) -> None:
        made = [make_record().pk for _ in range(5)]
        first = get(operator, "records", limit=2)
        second = get(operator, "records", limit=2, cursor=first["next"])
        third = get(operator, "records", limit=2, cursor=second["next"])
        pages = [[each["id"] for each in page["items"]] for page in (first, second, third)]
        assert pages == [made[:2:-1], made[2:0:-1], made[:1]]
        assert third["next"] is None

    def test_it_is_filtered(self, operator: Client) -> None:
        record = make_record(Status.FAILED, queue="backups", subject="a", last_error="Disk FULL")
        make_record(Status.FAILED, queue="default", last_error="boom")
        make_record(Status.WAITING, queue="backups", last_error="disk full")
        for query in (
            {"status": "failed", "queue": "backups"},
            {"status": "failed", "error": "k full"},
            {"subject": "a"},
        ):
            assert [each["id"] for each in get(operator, "records", **query)["items"]] == [record.pk], query
        assert get(operator, "records", kind="test", error="% full")["items"] == []

    def test_facts_are_those_of_the_command_without_the_lease_token(self, operator: Client) -> None:
        make_record(Status.RUNNING)
        [facts] = get(operator, "records")["items"]
        assert (facts["status"], facts["waiting_for"]) == ("running", None)
        assert "lease_token" not in facts

    @pytest.mark.parametrize(
        "query",
        ["limit=0", "cursor=0", "status=lost", "kind=nothing", "error=" + "x" * 201, "kind=%ff"],
    )
    def test_a_bad_query_is_refused_in_the_one_shape(self, query: str, operator: Client) -> None:
        answer = operator.get(f"/api/records?{query}")
        problem_of(answer, 400, 422)

    def test_a_search_that_takes_too_long_is_given_up(self, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        def forever(resource: records.Records, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
            return rows.extra(where=["pg_sleep(60) IS NOT NULL"])

        monkeypatch.setattr(choosing, "PAGE_SECONDS", 0.01)
        monkeypatch.setattr(records.Records, "filtered", forever)
        make_record()
        answer = operator.get("/api/records?error=x")
        assert "ask for less" in problem_of(answer, 503)["hint"]
        assert int(answer.headers["Retry-After"]) > 0


class TestOneRecord:
    def test_it_comes_with_its_latest_attempts_and_why_it_does_not_run(
        self, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(records, "SHOWN_ATTEMPTS", 2)
        record = make_record(Status.WAITING, attempt=3)
        for number in (1, 2, 3):
            Attempt.objects.create(
                record=record, number=number, queue="default", started_at=NOON,
                ended_at=NOON + timedelta(seconds=1), outcome=AttemptOutcome.FAILED, error=f"boom {number}",
            )  # fmt: skip
        facts = get(operator, f"records/{record.pk}")
        assert [each["number"] for each in facts["attempts"]] == [3, 2]
        assert facts["attempts"][0]["outcome"] == "failed"
        assert facts["id"] == record.pk
        assert len(facts["why"]) >= 1

    @pytest.mark.parametrize(
        "asked",
        [
            "0",
            "9223372036854775808",
            "9" * 5000,
            "x",
            "1.5",
        ],
    )
    @pytest.mark.parametrize("verb", ["", "/retry", "/cancel"])
    def test_an_unknown_one_is_not_there(self, asked: str, verb: str, operator: Client) -> None:
        path = f"/api/records/{asked}{verb}"
        answer = operator.post(path, content_type="application/json") if verb else operator.get(path)
        problem_of(answer, 404)

    def test_it_is_retried_and_cancelled(self, operator: Client) -> None:
        record = make_record(Status.FAILED)
        assert post(operator, f"records/{record.pk}/retry")["ready"] == [record.pk]
        assert status_of(record) == Status.READY
        assert post(operator, f"records/{record.pk}/cancel")["cancelled"] == [record.pk]
        assert status_of(record) == Status.CANCELLED
        lines = LogEntry.objects.order_by("pk").values_list("object_id", "object_repr", "change_message")
        assert list(lines) == [
            (str(record.pk), f"record {record.pk}: Retry now", "1 ready"),
            (str(record.pk), f"record {record.pk}: Cancel", "1 cancelled"),
        ]


class TestRetryingMany:
    def test_by_id_with_what_became_of_each(self, operator: Client) -> None:
        failed, done, running = make_record(Status.FAILED), make_record(Status.SUCCEEDED), make_record(Status.RUNNING)
        old = make_record(Status.FAILED, subject="a")
        newer = make_record(subject="a")
        ids = [failed.pk, done.pk, running.pk, old.pk, 10**15]
        assert post(operator, "records/retry", {"ids": ids}) == {
            "ready": [failed.pk], "running": [running.pk], "succeeded": [done.pk],
            "superseded": {str(old.pk): newer.pk}, "missing": [10**15], "next": None,
        }  # fmt: skip
        assert status_of(failed) == Status.READY

    def test_without_a_status_what_failed_is_meant(self, operator: Client) -> None:
        failed, cancelled = make_record(Status.FAILED), make_record(Status.CANCELLED)
        assert post(operator, "records/retry", {"kind": "test"})["ready"] == [failed.pk]
        assert post(operator, "records/retry", {"status": "cancelled"})["ready"] == [cancelled.pk]

    def test_a_group_is_retried_and_nothing_else(self, operator: Client) -> None:
        like = [make_record(Status.FAILED, last_error=f"disk {number} is full").pk for number in range(3)]
        other = make_record(Status.FAILED, last_error="boom")
        waiting = make_record(Status.WAITING, last_error="disk 1 is full")
        [group] = [each for each in get(operator, "dead-letters")["groups"] if each["count"] == 3]
        assert (group["group"], group["says"]) == (group_id("disk N is full"), "disk N is full")
        answer = post(operator, "records/retry", {"group": group["group"], "dry_run": True})
        assert answer == {"would_retry": {"failed": 3}, "next": None}
        assert post(operator, "records/retry", {"group": group["group"]})["ready"] == like
        assert (status_of(other), status_of(waiting)) == (Status.FAILED, Status.WAITING)

    def test_a_dry_run_changes_nothing(self, operator: Client) -> None:
        record = make_record(Status.WAITING)
        asked = {"status": "waiting", "dry_run": True}
        assert post(operator, "records/retry", asked) == {"would_retry": {"waiting": 1}, "next": None}
        assert status_of(record) == Status.WAITING
        assert not LogEntry.objects.exists()

    def test_more_than_fit_one_request_are_gone_on_with(
        self, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retrying, "MOST_AT_ONCE", 2)
        made = [make_record(Status.READY).pk for _ in range(5)]
        found, after = [], 0
        for _ in range(3):
            answer = post(operator, "records/retry", {"status": "ready", "after": after})
            found.append(answer["ready"])
            after = answer["next"]
        assert (found, after) == ([made[:2], made[2:4], made[4:]], None)

    def test_what_stopped_being_failed_meanwhile_is_left_alone(
        self, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody else retries it between the choice and the lock, and it fails again and waits."""
        record = make_record(Status.FAILED, last_error="boom")
        choose = records._ids

        def then_it_moves(*given: Any) -> list[int]:
            ids = choose(*given)
            backlog.retry([record.pk])
            return ids

        monkeypatch.setattr(records, "_ids", then_it_moves)
        answer = post(operator, "records/retry", {"error": "boom"})
        assert (answer["ready"], answer["missing"]) == ([], [])

    @pytest.mark.parametrize(
        "body",
        [
            {}, {"ids": []}, {"ids": [1], "kind": "test"}, {"ids": list(range(1, 1002))}, {"ids": [True]}, {"ids": [0]},
            {"ids": 7}, {"kinds": "test"}, {"kind": "nothing"}, {"error": "\0"}, {"status": "lost"}, {"group": "x"},
            {"group": "0" * 12, "error": "x"}, {"kind": "test", "dry_run": 1}, {"kind": ["test"]},
        ],
    )  # fmt: skip
    def test_a_bad_choice_is_refused_and_nothing_is_retried(self, body: Any, operator: Client) -> None:
        record = make_record(Status.FAILED)
        refused(operator, "records/retry", body)
        assert status_of(record) == Status.FAILED

    @pytest.mark.parametrize(
        "body",
        [
            "[]",
            "",
        ],
    )
    def test_what_is_no_object_is_refused(self, body: str, operator: Client) -> None:
        refused(operator, "records/retry", body, 400, 422)


class TestRules:
    def test_retry_policies_tell_their_first_delays(self) -> None:
        found = {each["name"]: each for each in get(staff("view_retrypolicy"), "retry-policies")["items"]}
        assert found
        for policy in found.values():
            assert len(policy["first_delays"]) == (0 if policy["algorithm"] == "progressive" else 10)

    @pytest.mark.parametrize("parameters", [{"unit": "x"}, [1], {"units": 3}])
    def test_one_that_was_stored_past_its_form_has_no_delays_and_hides_no_other(self, parameters: object) -> None:
        RetryPolicy.objects.create(name="odd", algorithm="fibonacci", parameters=parameters)
        found = {each["name"]: each for each in get(staff("view_retrypolicy"), "retry-policies")["items"]}
        assert (found["odd"]["parameters"], found["odd"]["first_delays"]) == (parameters, [])
        assert len(found["fibonacci"]["first_delays"]) == 10

    def test_who_may_look_at_records_may_look_at_breakers_as_in_the_admin(self) -> None:
        assert get(staff("view_backlogrecord"), "breakers")["items"] == []

    def test_breakers_tell_their_state_and_who_waits_for_them(self) -> None:
        Breaker.objects.create(key="repository:1", title="attic")
        broken = Breaker.objects.create(
            key="repository:2", title="nas", failures=5, opened_at=NOON, probe_at=NOON, last_error="full"
        )
        make_record(Status.WAITING, waiting_for=WaitingFor.BREAKER, breaker=broken)
        first, second = get(staff("view_breaker"), "breakers")["items"]
        assert (first["key"], first["state"], first["waiting"], first["last_error"]) == (
            "repository:2",
            "open",
            1,
            "full",
        )
        assert (second["title"], second["state"], second["waiting"]) == ("attic", "closed", 0)
