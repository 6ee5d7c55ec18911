"""Tokens of the API: who is accepted, who is not and learns nothing, and what is stored."""

from datetime import timedelta
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from api import tokens
from api.auth import FAILED_TOKENS
from api.models import ApiToken
from operations import limits
from tests.api.asking import Program, make_user, problem_of
from tests.factories import NOON

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _no_counts_of_others() -> None:
    limits.caches["limits"].clear()


@pytest.fixture
def user() -> User:
    return make_user()


class TestIssuing:
    def test_only_a_digest_is_stored(self, user: User) -> None:
        issued = tokens.issue(user, "grafana", ["operate", "read"], now=NOON)
        assert issued.text.startswith("bst_")
        assert len(issued.text) > 40
        with connection.cursor() as cursor:
            cursor.execute("SELECT t::text FROM api_apitoken t")
            [(row,)] = cursor.fetchall()
        assert issued.text not in row
        assert issued.text.removeprefix("bst_") not in row
        assert issued.token.scopes == ["read", "operate"]

    @pytest.mark.parametrize(
        ("name", "scopes", "ends_after"),
        [
            ("", ["read"], HOUR), (" ", ["read"], HOUR), ("a\nb", ["read"], HOUR), ("x" * 101, ["read"], HOUR),
            ("a", [], HOUR), ("a", ["admin"], HOUR), ("a", ["read", ""], HOUR), ("a", ["read"], -HOUR),
            ("a", ["read"], timedelta(0)),
        ],
    )  # fmt: skip
    def test_what_makes_no_sense_is_refused(
        self, name: str, scopes: list[str], ends_after: timedelta, user: User
    ) -> None:
        with pytest.raises(ValueError, match=r"."):
            tokens.issue(user, name, scopes, NOON + ends_after, NOON)
        assert not ApiToken.objects.exists()


class TestAuthenticating:
    def test_it_is_accepted_until_it_ends_or_is_revoked_and_while_its_user_is_active(self, user: User) -> None:
        issued = tokens.issue(user, "a", ["read"], NOON + HOUR, NOON)
        assert tokens.authenticate(issued.text, NOON + HOUR - timedelta(seconds=1)) == issued.token
        assert tokens.authenticate(issued.text, NOON + HOUR) is None
        User.objects.update(is_active=False)
        assert tokens.authenticate(issued.text, NOON) is None
        User.objects.update(is_active=True)
        assert tokens.authenticate(issued.text, NOON) is not None
        assert (tokens.revoke(issued.token.pk, NOON), tokens.revoke(issued.token.pk, NOON)) == (True, False)
        assert tokens.authenticate(issued.text, NOON) is None

    def test_what_is_none_is_refused_by_the_same_single_lookup(self, user: User) -> None:
        tokens.issue(user, "a", ["read"])
        for text in ("", "bst_x", "\ud800", "\0", "x" * 100_000):
            with CaptureQueriesContext(connection) as queries:
                assert tokens.authenticate(text) is None
            assert len(queries) == 1

    def test_its_use_is_written_at_most_once_a_minute(self, user: User) -> None:
        issued = tokens.issue(user, "a", ["read"], now=NOON)
        written = []
        for seconds in (0, 30, 59, 60, 90, 9000, 120):  # the last but one by a clock that was ahead
            tokens.authenticate(issued.text, NOON + timedelta(seconds=seconds))
            written.append((ApiToken.objects.get().used_at - NOON).seconds)
        assert written == [0, 0, 0, 60, 60, 9000, 120]

    def test_what_ended_long_ago_is_forgotten(self, user: User) -> None:
        revoked = tokens.issue(user, "a", ["read"], now=NOON).token
        expired = tokens.issue(user, "b", ["read"], NOON + HOUR, NOON).token
        kept = tokens.issue(user, "c", ["read"], now=NOON).token
        tokens.revoke(revoked.pk, NOON)
        assert tokens.prune(NOON + timedelta(days=90)) == 0
        assert tokens.prune(NOON + timedelta(days=90, seconds=1)) == 1
        assert tokens.prune(NOON + timedelta(days=91)) == 1
        assert list(ApiToken.objects.all()) == [kept]
        assert not ApiToken.objects.filter(pk=expired.pk).exists()


class TestRequests:
    def test_whatever_is_wrong_with_it_the_answer_is_the_same(self, user: User) -> None:
        revoked, expired = Program(user), Program(user)
        inactive = Program(make_user(is_active=False))
        tokens.revoke(revoked.issued.token.pk)
        ApiToken.objects.filter(pk=expired.issued.token.pk).update(expires_at=NOON)
        unknown, other_scheme = Program(user), Program(user)
        answers = [program.get("me") for program in (revoked, expired, inactive)]
        answers.append(unknown.ask("GET", "me", Authorization="Bearer bst_unknown"))
        answers.append(other_scheme.ask("GET", "me", Authorization="Basic YTpi"))
        answers.append(Client().get("/api/me"))
        assert len({answer.content for answer in answers}) == 1
        for answer in answers:
            problem_of(answer, 401)
            assert answer.headers["WWW-Authenticate"] == "Bearer"

    def test_who_it_is_and_what_it_may(self) -> None:
        program = Program(make_user("view_throttle"), ("read",))
        me = program.get("me").json()
        assert (me["user"], me["permissions"]) == (program.user.username, ["jobs.view_throttle"])
        assert (me["token"]["name"], me["token"]["scopes"]) == ("a program", ["read"])
        client = Client()
        client.force_login(program.user)
        assert client.get("/api/me").json()["token"] is None

    def test_a_token_counts_whatever_session_is_beside_it_and_needs_no_csrf_token(self) -> None:
        browser = Client(enforce_csrf_checks=True)
        browser.force_login(make_user(is_superuser=True))
        program = Program(make_user("add_throttle"))
        program.client = browser
        problem_of(program.ask("GET", "me", Authorization="Bearer bst_x"), 401)
        problem_of(program.get("sources"), 403)
        assert program.post("throttles", {"name": "a", "max_in_flight": 1}).status_code == 201

    def test_too_many_wrong_tokens_are_refused_and_a_good_one_is_accepted(self) -> None:
        program = Program()
        with patch.object(limits, "_present", return_value=1_000.0):
            for _ in range(FAILED_TOKENS.count):
                problem_of(program.ask("GET", "me", Authorization="Bearer bst_x"), 401)
            refused = program.ask("GET", "me", Authorization="Bearer bst_x")
            problem_of(refused, 429)
            assert int(refused.headers["Retry-After"]) == 20
            assert program.get("me").status_code == 200

    def test_no_error_repeats_a_token(self) -> None:
        program = Program(make_user(), ("read",))
        for path in ("me?token=bst_secret", "throttles", "nothing", "throttles/bst_secret"):
            assert b"bst_" not in program.get(path).content

    def test_the_document_is_read_with_a_token(self) -> None:
        assert Program().get("openapi.json").json()["openapi"] == "3.1.0"
        problem_of(Client().get("/api/openapi.json", headers={"Authorization": "Bearer bst_x"}), 401)
        assert Client().get("/api/openapi.json").status_code == 302
