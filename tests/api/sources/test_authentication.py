"""Authentication of agents: by a token, which an agent gets for a code."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.models import Decision
from sources.agents import tokens
from sources.models import AgentToken, EnrolmentCode
from tests.api.asking import fields_of, made, problem_of
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
        valid.client = Client(enforce_csrf_checks=True)
        assert valid.check_in().status_code == 200, "browsers' scripts cannot use it, so it needs no CSRF token"


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
        assert (other.source.checked_in_at, other.source.paused_at) == (None, None)
        assert AgentToken.objects.count() == 1

    def test_its_own_name_may_be_repeated(self) -> None:
        agent = Agent(make_source(name="own"))
        assert agent.check_in(source="own").status_code == 200
        assert agent.check_in(source=None).status_code == 200


def enrol(code: Any, **more: Any) -> Any:
    return Client().post("/api/enrol", {"code": code, **more}, content_type="application/json")


class TestEnrolment:
    def test_a_code_is_exchanged_for_a_token_that_works(self) -> None:
        source = make_source(name="laptop")
        code = tokens.make_code(source)
        found = made(enrol(code.lower().replace("-", ""), hostname="büro"))
        assert sorted(found) == ["interval", "server_time", "source", "token"]
        assert (found["source"], found["interval"]) == ("laptop", 300)
        assert abs(datetime.fromisoformat(found["server_time"]) - timezone.now()) < timedelta(minutes=1)
        agent = tokens.authenticate(found["token"])
        assert agent is not None
        assert (agent.source, agent.source.hostname) == (source, "büro")
        line = repr(vars(Decision.objects.get(what="enrolled")))
        assert (code in line, found["token"] in line) == (False, False)

    def test_unknown_used_and_expired_codes_get_the_same_answer(self) -> None:
        used, expired, revoked = make_source(), make_source(), make_source()
        codes = [tokens.make_code(source) for source in (used, expired, revoked)]
        enrol(codes[0])
        EnrolmentCode.objects.filter(source=expired).update(expires_at=timezone.now())
        tokens.revoke(revoked)
        answers = [enrol(code) for code in (*codes, "K7QP-K7QP-K7QP-K7QP", "", "nul\0", "日本")]
        assert {answer.status_code for answer in answers} == {401}
        assert len({answer.content for answer in answers}) == 1
        assert "manage.py sources enrol" in problem_of(answers[0])["hint"]
        assert AgentToken.objects.count() == 1

    def test_what_is_no_text_or_too_long_is_refused_by_name_and_uses_up_no_code(self) -> None:
        for wrong in (None, 7, ["K7QP"], "x" * 65):
            assert list(fields_of(enrol(wrong))) == ["code"]
        code = tokens.make_code(make_source())
        assert list(fields_of(enrol(code, hostname="x" * 254))) == ["hostname"]
        assert enrol(code).status_code == 201
