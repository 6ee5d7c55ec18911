"""API tokens in the admin: shown once, revoked after a question, never edited, and in one's own name only."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from api import tokens
from api.models import ApiToken
from audit.models import AuditEntry
from tests.api.asking import make_user

pytestmark = pytest.mark.django_db

TOKENS = "/admin/api/apitoken/"


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def issue(client: Client, of: User, **change: Any) -> Any:
    return client.post(f"{TOKENS}add/", {"name": "grafana", "user": of.pk, "scopes": ["read"], "days": "90"} | change)


class TestIssuing:
    def test_the_token_is_shown_on_the_page_that_answers_and_nowhere_else(
        self, admin_client: Client, admin_user: User
    ) -> None:
        answer = issue(admin_client, admin_user)
        assert answer.status_code == 200
        text = re.search(r'id="token">(bst_[\w-]+)<', answer.content.decode())
        assert text is not None
        assert "no-cache" in answer.headers["Cache-Control"]
        token = tokens.authenticate(text[1])
        assert token is not None
        assert (token.user, token.scopes) == (admin_user, ["read"])
        for path in (TOKENS, f"{TOKENS}{token.pk}/change/", f"{TOKENS}{token.pk}/history/"):
            page = admin_client.get(path)
            assert (page.status_code, text[1] in page.content.decode()) == (200, False), path
        kept = [str(entry) for entry in AuditEntry.objects.values()]
        kept += [str(session.get_decoded()) for session in Session.objects.all()]
        assert text[1] not in " ".join(kept)

    def test_without_scopes_there_is_none_and_without_days_it_does_not_expire(
        self, admin_client: Client, admin_user: User
    ) -> None:
        answer = issue(admin_client, admin_user, scopes=[])
        assert (answer.status_code, b"bst_" in answer.content) == (200, False)
        assert not ApiToken.objects.exists()
        issue(admin_client, admin_user, days="")
        assert ApiToken.objects.get().expires_at is None

    def test_it_takes_the_permission_and_a_superuser_for_the_name_of_others(self, admin_user: User) -> None:
        person = make_user("add_apitoken", "view_apitoken")
        client = signed_in(person)
        assert issue(client, admin_user).status_code == 200
        assert not ApiToken.objects.exists()
        issue(client, person)
        assert ApiToken.objects.get().user == person
        assert issue(signed_in(other := make_user("view_apitoken")), other).status_code == 403


class TestRevoking:
    def test_a_question_comes_first_of_one_and_of_several(self, admin_client: Client, admin_user: User) -> None:
        issued = tokens.issue(admin_user, "grafana", ["read"])
        path = f"{TOKENS}{issued.token.pk}/revoke/"
        asked = admin_client.get(path, follow=True)
        assert b"Revoke?" in asked.content
        assert tokens.authenticate(issued.text) is not None
        admin_client.post(path, {"confirmed": "yes"})
        assert tokens.authenticate(issued.text) is None
        assert AuditEntry.objects.get(verb="did").text == "Revoked."
        ids = [tokens.issue(admin_user, "grafana", ["read"]).token.pk for _ in range(2)]
        answer = admin_client.post(
            TOKENS, {"action": "revoke", "_selected_action": ids, "confirmed": "yes"}, follow=True
        )
        assert b"2 tokens revoked" in answer.content
