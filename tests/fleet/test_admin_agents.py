"""Actions on an agent in the admin: see what it reported, enrol it, revoke its tokens."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from audit.models import AuditEntry
from sources.agents import tokens
from sources.models import Source
from tests.factories import everything_stored
from tests.people import told
from tests.sources.factories import make_source

pytestmark = pytest.mark.django_db

SOURCES = "/admin/sources/source/"
CODE = re.compile(r"[0-9A-Z]{4}(?:-[0-9A-Z]{4}){3}")


@pytest.fixture
def source() -> Source:
    return make_source(name="laptop-1")


def page_of(source: Source, part: str = "change") -> str:
    return f"{SOURCES}{source.pk}/{part}/"


def shown(client: Client, source: Source) -> str:
    """The page of the source, as text."""
    return unescape(re.sub(r"<[^>]*>", " ", client.get(page_of(source)).content.decode()))


def act(client: Client, action: str, *sources: Source) -> str:
    """Choose an action of the list for some sources; the message that it answers with."""
    return told(client.post(SOURCES, {"action": action, "_selected_action": [source.pk for source in sources]}))


def facts(client: Client, path: str) -> str:
    response = client.post(path, follow=True)
    return " ".join(str(message) for message in response.context["messages"])


class TestWhatTheAgentReported:
    def test_the_last_check_in_is_shown(self, admin_client: Client, source: Source) -> None:
        now = timezone.now()
        Source.objects.filter(pk=source.pk).update(
            checked_in_at=now - timedelta(minutes=5), hostname="laptop-1.local", addresses=["127.0.0.5", "127.0.0.6"],
            on_battery=True, metered=False, clock_skew=-7200,
        )  # fmt: skip
        page = shown(admin_client, source)
        assert re.search(r"5 min( \d+ s)? ago", page)
        for text in ("laptop-1.local", "127.0.0.5, 127.0.0.6", "2 h behind"):
            assert text in page
        assert re.search(r"On battery\s+yes", page)
        assert re.search(r"Metered connection\s+no", page)

    def test_tokens_are_counted_and_never_shown(self, admin_client: Client, source: Source) -> None:
        first, second = tokens.issue(source), tokens.issue(source)
        assert "2 valid, never used" in shown(admin_client, source)
        tokens.authenticate(second)
        code = tokens.make_code(source)
        page = shown(admin_client, source)
        assert re.search(r"1 valid, last used [\d.]+ m?s ago; 1 enrolment code not used yet", page)
        assert not [text for text in (first, second, code) if text in page]


class TestEnrolling:
    def test_the_code_is_shown_once_with_the_command_kept_nowhere_and_an_agent_can_use_it(
        self, admin_client: Client, source: Source
    ) -> None:
        assert CODE.search(admin_client.get(page_of(source, "enrol")).content.decode()) is None
        assert not source.enrolment_codes.exists()
        response = admin_client.post(page_of(source, "enrol"))
        page = unescape(response.content.decode())
        [code] = re.findall(r"python3 backupsched-agent enrol http://testserver/ (\S+)</code>", page)
        assert CODE.fullmatch(code)
        assert "no-store" in response.headers["Cache-Control"]
        everything = everything_stored() + str([session.get_decoded() for session in Session.objects.all()])
        assert "Made an enrolment code." in everything
        assert not [text for text in (code, code.replace("-", "")) if text in everything + shown(admin_client, source)]
        assert tokens.redeem(code)[0] == source

    def test_the_source_is_not_enrolled_by_another_site(self, source: Source) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(User.objects.create_superuser("admin"))
        assert client.post(page_of(source, "enrol")).status_code == 403
        assert not source.enrolment_codes.exists()


class TestRevoking:
    def test_it_asks_first_then_ends_all_tokens_and_codes_of_this_source_only(
        self, admin_client: Client, source: Source
    ) -> None:
        other = make_source()
        token, others, code = tokens.issue(source), tokens.issue(other), tokens.make_code(source)
        assert "All agents of the source are refused" in admin_client.get(page_of(source, "revoke")).content.decode()
        assert tokens.authenticate(token)
        assert facts(admin_client, page_of(source, "revoke")) == (
            "laptop-1: 1 token revoked, and any open enrolment code."
        )
        assert tokens.authenticate(token) is None
        with pytest.raises(tokens.CredentialRefused):
            tokens.redeem(code)
        assert tokens.authenticate(others)
        assert AuditEntry.objects.get(verb="did").text == "Revoked its tokens."
