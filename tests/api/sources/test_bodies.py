"""Bodies that are not a small JSON object, and answers where there is nothing."""

import json
from collections.abc import Callable

import pytest
from django.db import OperationalError
from django.test import Client

from api.bodies import LARGEST_BODY
from sources.agents import checkins
from tests.api.asking import problem_of
from tests.api.sources.agents import Agent

pytestmark = pytest.mark.django_db


def raising(error: Exception) -> Callable[..., None]:
    def fail(*given: object) -> None:
        raise error

    return fail


class TestBodies:
    def test_what_is_no_json_object_is_refused(self) -> None:
        agent = Agent()
        for broken in ("{", '{"hostname": "a', '{"a": 1}{"b": 2}'):
            problem_of(agent.post("check-in", broken), 400, 422)
        for no_object in ("null", "[{}]"):
            problem_of(agent.post("check-in", no_object), 400)

    def test_a_large_one_is_refused_everywhere_and_without_a_token_too(self) -> None:
        agent = Agent()
        for operation in ("check-in", "agent/snooze", "agent/back-up-now", "agent/rotate"):
            problem_of(agent.post(operation, json.dumps({"hostname": "x" * LARGEST_BODY})), 413)
        answer = Client().post("/api/enrol", {"code": "x" * LARGEST_BODY}, content_type="application/json")
        problem_of(answer, 413)

    def test_the_largest_one_is_read(self) -> None:
        body = json.dumps({"newer": ""})
        filled = body.replace('""', '"' + "x" * (LARGEST_BODY - len(body)) + '"')
        assert len(filled) == LARGEST_BODY
        assert Agent().post("check-in", filled).status_code == 200
        assert Agent().post("check-in", filled + " ").status_code == 413

    def test_a_length_that_is_no_number_or_unknown_is_refused(self) -> None:
        for length in ("-1", "9" * 5000):
            problem_of(Agent().send("{}", CONTENT_LENGTH=length), 400, 413)
        answer = Agent().send("{}", headers={"Transfer-Encoding": "chunked"}, CONTENT_LENGTH="")
        assert "Content-Length" in problem_of(answer, 411)["hint"]

    def test_a_sender_who_hangs_up_is_no_error_of_the_server(self) -> None:
        class HungUp:
            def read(self, *size: int) -> bytes:
                raise ConnectionResetError

            readline = read

        answer = Agent().send("{}", **{"wsgi.input": HungUp()})
        assert problem_of(answer, 400)["detail"] == "the body ended too early"

    def test_another_content_type_is_refused(self) -> None:
        form = "application/x-www-form-urlencoded"
        for content_type in ("text/plain", form, "multipart/form-data; boundary=x", "text/json"):
            assert "application/json" in problem_of(Agent().send("{}", content_type), 415)["hint"]
        agent = Agent()
        answer = agent.send('{"hostname": "büro"}', "application/json; charset=utf-8")
        agent.source.refresh_from_db()
        assert (answer.status_code, agent.source.hostname) == (200, "büro")


class TestErrors:
    def test_a_method_that_is_not_allowed(self) -> None:
        answer = Client().get("/api/check-in")
        assert answer.status_code == 405
        assert answer.headers["Allow"] == "POST"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        problem_of(answer)

    def test_where_nothing_is(self) -> None:
        for path in ("", "nothing", "check-in/", "\0", "%2e%2e/admin", "policies//preview"):
            for method in ("get", "post", "delete"):
                problem_of(getattr(Client(enforce_csrf_checks=True), method)(f"/api/{path}"), 401, 403, 404)

    def test_other_pages_keep_their_errors(self, admin_client: Client) -> None:
        answer = admin_client.get("/admin/nothing/here/")
        assert answer.status_code == 404
        assert answer.headers["Content-Type"].startswith("text/html")

    def test_a_wrong_host(self) -> None:
        answer = Client(headers={"Host": "evil.example"}).get("/api/agent/status")
        assert answer.status_code == 400
        problem = problem_of(answer)
        assert "host name" in problem["detail"]
        assert "ALLOWED_HOSTS" in problem["hint"]
        assert "evil" not in answer.content.decode()

    def test_a_database_that_is_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkins, "check_in", raising(OperationalError("connection to 10.0.0.9 failed")))
        answer = Agent().check_in()
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "10"
        assert "10.0.0.9" not in answer.content.decode()
        problem_of(answer)

    def test_an_error_of_ours_shows_no_traceback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkins, "check_in", raising(RuntimeError("inside")))
        agent = Agent()
        agent.client.raise_request_exception = False
        answer = agent.check_in()
        assert answer.status_code == 500
        assert "inside" not in answer.content.decode()
        problem_of(answer)

    def test_a_source_that_is_deleted_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkins, "check_in", raising(checkins.SourceGone()))
        assert Agent().check_in().status_code == 401


def test_a_number_of_any_length_is_no_instant() -> None:
    agent = Agent()
    for path, field in (("check-in", "sent_at"), ("agent/snooze", "until")):
        for digits in (30, 400):
            problem_of(agent.post(path, f'{{"{field}": {"9" * digits}}}'), 422)
