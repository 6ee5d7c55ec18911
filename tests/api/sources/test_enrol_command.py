"""manage.py sources enrol"""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from sources.agents import tokens
from sources.models import AgentToken, EnrolmentCode
from tests.sources.factories import make_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def enrol(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> str:
        call_command("sources", "enrol", *arguments)
        return capsys.readouterr().out

    return run


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        call_command("sources", "enrol", *arguments)
    assert caught.value.returncode == 2
    return str(caught.value)


class TestCode:
    def test_it_prints_the_code_and_the_command_for_the_machine(self, enrol: Any, settings: Any) -> None:
        source = make_source(name="laptop")
        printed = enrol("laptop")
        command = printed.strip().splitlines()[-1].strip()
        assert command.startswith("python3 backupsched-agent enrol https://HOST/ ")
        code = command.split()[-1]
        assert printed.count(code) == 2
        assert tokens.redeem(code)[0] == source
        settings.CSRF_TRUSTED_ORIGINS = ["https://backup.example"]
        assert "enrol https://backup.example/ " in enrol("laptop"), "the trusted origin, if there is one"

    def test_as_json_with_another_url(self, enrol: Any) -> None:
        make_source(name="laptop")
        found = json.loads(enrol("laptop", "--json", "--valid-for", "60", "--url", "https://b.example/"))
        assert found["command"] == f"python3 backupsched-agent enrol https://b.example/ {found['code']}"
        left = datetime.fromisoformat(found["expires_at"]) - timezone.now()
        assert timedelta(seconds=30) < left <= timedelta(seconds=60)
        assert EnrolmentCode.objects.get().expires_at == datetime.fromisoformat(found["expires_at"])


class TestTokens:
    def test_a_token_alone(self, enrol: Any) -> None:
        source = make_source(name="laptop")
        agent = tokens.authenticate(enrol("laptop", "--token").strip())
        assert agent is not None
        assert agent.source == source

    def test_revoked(self, enrol: Any) -> None:
        source = make_source(name="laptop")
        token, code = tokens.issue(source), tokens.make_code(source)
        assert "1 token(s) ended" in enrol("laptop", "--revoke")
        assert tokens.authenticate(token) is None
        with pytest.raises(tokens.CredentialRefused):
            tokens.redeem(code)
        assert json.loads(enrol("laptop", "--revoke", "--json")) == {"source": "laptop", "revoked": 0}


class TestBadInput:
    def test_an_unknown_source_names_similar_ones(self) -> None:
        make_source(name="laptop-7")
        assert refusal("laptop7") == "there is no source 'laptop7'; did you mean 'laptop-7'?"
        assert refusal("something else entirely") == "there is no source 'something else entirely'; there is laptop-7"
        assert "there is no source" in refusal("nul\0")

    def test_a_code_must_live_for_a_while_and_not_for_ever(self) -> None:
        make_source(name="laptop")
        for seconds in ("0", "-5", "nan", "inf", "1e12", "0.5"):
            with pytest.raises(CommandError, match=r"--valid-for: .* is not a duration"):
                call_command("sources", "enrol", "laptop", "--valid-for", seconds)
        assert not EnrolmentCode.objects.exists()

    def test_a_source_that_is_deleted_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        source = make_source(name="laptop")
        monkeypatch.setattr("fleet.management.sources.enrol.named", lambda *_: source)
        type(source).objects.all().delete()
        for option in ("--token", "--revoke", "--json"):
            assert "deleted in the meantime" in refusal("laptop", option)
        assert not AgentToken.objects.exists()
