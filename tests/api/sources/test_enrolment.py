"""POST /api/enrol: a code for a token."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.models import Decision
from sources.agents import tokens
from sources.models import AgentToken, EnrolmentCode
from tests.api.asking import fields_of, made, problem_of
from tests.sources.factories import make_source

pytestmark = pytest.mark.django_db


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
        assert "manage.py enrol" in problem_of(answers[0])["hint"]
        assert AgentToken.objects.count() == 1

    def test_what_is_no_text_or_too_long_is_refused_by_name_and_uses_up_no_code(self) -> None:
        for wrong in (None, 7, ["K7QP"], "x" * 65):
            assert list(fields_of(enrol(wrong))) == ["code"]
        code = tokens.make_code(make_source())
        assert list(fields_of(enrol(code, hostname="x" * 254))) == ["hostname"]
        assert enrol(code).status_code == 201
