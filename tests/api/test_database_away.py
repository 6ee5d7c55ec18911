"""The database is away: 503, when to try again, and no traceback, from the API, its document and the pages alike."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.utils.functional import SimpleLazyObject

from api.application import for_staff
from tests.api.asking import Program, make_user, problem_of

pytestmark = pytest.mark.django_db

DOCUMENTS = ["/api/docs", "/api/openapi.json"]
GONE = OperationalError('connection to "127.0.0.1" failed:\n\tIs the server running?')


@pytest.fixture
def session() -> Client:
    client = Client()
    client.force_login(make_user(is_superuser=True))
    return client


@contextmanager
def database_away(error: Exception = GONE) -> Iterator[None]:
    def refuse(*given: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "ensure_connection", refuse)
        yield


class TestTheDocument:
    @pytest.mark.parametrize("path", DOCUMENTS)
    def test_it_is_a_problem_by_token_and_by_session(self, path: str, session: Client, program: Program) -> None:
        for ask in (session.get, program.get):
            with database_away():
                answer = ask(path)
            assert problem_of(answer, 503)["instance"] == path
            assert answer.headers["Retry-After"] == "10"

    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer bst_x"}])
    @pytest.mark.parametrize("error", [GONE, InterfaceError("connection already closed")])
    def test_it_is_answered_as_an_operation_is_without_any_middleware(
        self, error: Exception, headers: dict[str, str]
    ) -> None:
        def look(request: HttpRequest) -> HttpResponse:
            raise AssertionError("the account is not known yet")

        def find() -> AnonymousUser:
            raise error

        request = RequestFactory().get("/api/docs", headers=headers)
        request.user = SimpleLazyObject(find)
        with database_away(error):
            answer = for_staff(look)(request)
        assert problem_of(answer, 503)["detail"] == "the database cannot answer now"
        assert answer.headers["Retry-After"] == "10"


class TestPages:
    def test_a_sentence_when_to_try_again_and_one_line_in_the_log(
        self, session: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        for path in ("/admin/", "/admin/schedules/schedule/", "/backoff/"):
            for error in (GONE, InterfaceError("connection already closed")):
                caplog.clear()
                with database_away(error):
                    answer = session.get(path)
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
                page = answer.content.decode()
                for words in (
                    "<h1>The database does not answer</h1>",
                    "in 10 seconds",
                    "doctor</code>",
                    "trouble.md",
                ):
                    assert words in page
                [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
                assert record.getMessage() == f"no answer to {path}: {' '.join(str(error).split())}"
                assert record.exc_info is None

    def test_another_failure_is_none_of_its_business(self, session: Client) -> None:
        session.raise_request_exception = False
        with database_away(RuntimeError("a mistake")):
            assert session.get("/admin/").status_code == 500
