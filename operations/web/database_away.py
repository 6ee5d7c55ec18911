"""A page while the database does not answer, or not in time: a sentence and when to try again, instead of Django's bare
error page."""

from collections.abc import Callable

from django.conf import settings
from django.db import Error, InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response

from jobs.database_errors import Trouble, trouble_of
from operations.patience import PAGE_SECONDS, at_most, was_given_up

DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)
"""Among which are errors of ours: ask `trouble_of`."""

DATABASE_AWAY_SECONDS = 10
"""When to try again while the database is away, or a lock is held for too long."""

SENTENCE = "The database does not answer; try again in a moment.\n"
GIVEN_UP = (
    f"The page was given up: the database took more than {PAGE_SECONDS} s. "
    "Go back and ask for less: a shorter search, or one more filter.\n"
)


class DatabaseAway:
    """Middleware: status 503 with `Retry-After`, and one line in the log. The API has handlers of its own for that;
    below /api/ what they do not see gets the shape of its errors (`JsonErrors`)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The answer instead of what a view raised; None: it is no matter of the database being away."""
        return _answer(request, error)


class Patience:
    """Middleware, to stand last: each statement of a page that is only looked at is given up after 10 s. What a form
    does may take longer, and the API bounds its own. Without a session nobody gets a page that asks the database."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_asked = settings.SESSION_COOKIE_NAME in request.COOKIES and not request.path.startswith("/api/")
        if not is_asked or request.method not in ("GET", "HEAD"):
            return self._get_response(request)
        try:
            with at_most(PAGE_SECONDS):
                return self._get_response(request)
        except Error as error:  # no transaction could begin, or end
            if answer := _answer(request, error):
                return answer
            raise


def _answer(request: HttpRequest, error: Exception) -> HttpResponse | None:
    if trouble_of(error) is Trouble.OURS:
        return None
    sentence = GIVEN_UP if was_given_up(error) else SENTENCE
    headers = {"Retry-After": str(DATABASE_AWAY_SECONDS)}
    answer = HttpResponse(sentence, status=503, headers=headers, content_type="text/plain; charset=utf-8")
    said = " ".join(str(error).split())  # psycopg tells of each address on a line of its own
    log_response("no answer to %s: %s", request.path, said, response=answer, request=request)
    return answer
