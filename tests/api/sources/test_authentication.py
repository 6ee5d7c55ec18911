"""Who is let in: agents with their token, staff with a session and, for changes, the CSRF token."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from sources.agents import tokens
from sources.models import AgentToken
from tests.api.asking import problem_of
from tests.api.sources.agents import Agent
from tests.sources.factories import make_assignment, make_source

pytestmark = pytest.mark.django_db


def with_header(header: str | None) -> Any:
    headers = {} if header is None else {"Authorization": header}
    return Client().post("/api/check-in", "{}", content_type="application/json", headers=headers)


class TestToken:
    def test_every_wrong_token_gets_the_same_answer(self) -> None:
        revoked = Agent()
        tokens.revoke(revoked.source)
        valid = Agent()
        headers = [
            None,
            "Bearer ",
            f"Bearer {revoked.token}",
            "Bearer bsa_" + "A" * 43,
            f"Bearer {valid.token[:-1]}",
            f"Bearer {valid.token} ",
            f"Basic {valid.token}",
            f"Bearer {AgentToken.objects.order_by('-pk')[0].digest}",
            "Bearer \xff\xfe",
            "Bearer " + "x" * 5000,
        ]
        answers = [with_header(header) for header in headers]
        assert {answer.status_code for answer in answers} == {401}
        assert len({answer.content for answer in answers}) == 1
        assert len({tuple(sorted(answer.headers.items())) for answer in answers}) == 1
        assert answers[0].headers["WWW-Authenticate"] == "Bearer"
        problem_of(answers[0])

    @pytest.mark.parametrize(
        ("method", "operation"),
        [
            ("post", "check-in"),
            ("post", "agent/back-up-now"),
            ("post", "agent/snooze"),
            ("delete", "agent/snooze"),
            ("get", "agent/status"),
            ("post", "agent/rotate"),
        ],
    )
    def test_no_operation_of_agents_works_without_one(self, method: str, operation: str) -> None:
        answer = getattr(Client(), method)(f"/api/{operation}", content_type="application/json")
        assert answer.status_code == 401
        problem_of(answer)

    def test_a_session_is_no_token(self, admin_client: Client) -> None:
        assert admin_client.get("/api/agent/status").status_code == 401

    def test_unknown_and_revoked_ones_and_what_is_none_cost_the_same_work(self) -> None:
        revoked = Agent()
        tokens.revoke(revoked.source)

        for text in (revoked.token, "bsa_" + "A" * 43, "x", ""):
            with CaptureQueriesContext(connection) as others:  # beside the look-up by its digest
                assert tokens.authenticate(text) is None
            assert not others.captured_queries

    def test_scripts_of_browsers_cannot_use_it_so_it_needs_no_csrf_token(self) -> None:
        agent = Agent()
        strict = Client(enforce_csrf_checks=True)
        answer = strict.post(
            "/api/check-in", "{}", content_type="application/json", headers={"Authorization": f"Bearer {agent.token}"}
        )
        assert answer.status_code == 200


class TestAnotherSource:
    @pytest.mark.parametrize("named", ["exists", "does not exist", ["exists"], ""])
    def test_a_body_that_names_one_is_refused_whether_it_exists_or_not(self, named: Any) -> None:
        agent = Agent(make_source(name="own"))
        other = make_assignment(None, make_source(name="exists"))
        answers = [
            agent.check_in(source=named),
            agent.post("agent/back-up-now", {"source": named}),
            agent.post("agent/snooze", {"source": named, "for": 60}),
            agent.post("agent/rotate", {"source": named}),
        ]
        assert {answer.status_code for answer in answers} == {403}
        problems = [problem_of(answer) for answer in answers]
        assert {problem.pop("instance") for problem in problems} == {answer.wsgi_request.path for answer in answers}
        assert all(problem == problems[0] for problem in problems)
        other.source.refresh_from_db()
        assert (other.source.checked_in_at, other.source.snoozed_until) == (None, None)
        assert AgentToken.objects.count() == 1

    def test_its_own_name_may_be_repeated(self) -> None:
        agent = Agent(make_source(name="own"))
        assert agent.check_in(source="own").status_code == 200
        assert agent.check_in(source=None).status_code == 200


class TestRotation:
    def test_the_new_token_ends_the_old_one_at_its_first_use(self) -> None:
        agent = Agent()
        answer = agent.post("agent/rotate")
        assert agent.check_in().status_code == 200
        renewed = Agent(agent.source)
        AgentToken.objects.order_by("-pk")[0].delete()
        renewed.token = answer.json()["token"]
        assert renewed.check_in().status_code == 200
        assert agent.check_in().status_code == 401


class TestStaff:
    @pytest.mark.parametrize(("staff", "status"), [(None, 401), (False, 403)])
    def test_other_people_see_no_policies(self, client: Client, staff: bool | None, status: int) -> None:
        if staff is not None:
            client.force_login(User.objects.create_user("visitor", is_staff=staff))
        answer = client.get("/api/policies/x/preview")
        assert answer.status_code == status
        problem_of(answer)

    def test_a_token_of_an_agent_opens_nothing_of_staff(self) -> None:
        assert Agent().get("policies/x/preview").status_code == 401


def test_a_change_by_session_needs_the_csrf_token() -> None:
    client, body = Client(enforce_csrf_checks=True), {"name": "gentle", "max_in_flight": 1}
    client.force_login(User.objects.create_superuser("staff"))
    refused = client.post("/api/throttles", body, content_type="application/json")
    assert refused.status_code == 403
    problem_of(refused)
    client.cookies["csrftoken"] = "x" * 32
    headers = {"X-CSRFToken": "x" * 32}
    assert client.post("/api/throttles", body, content_type="application/json", headers=headers).status_code == 201
