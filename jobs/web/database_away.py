"""A page while the database does not answer: a sentence and when to try again, instead of Django's bare error page."""

from collections.abc import Callable

from django.db import InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response

from jobs.database_errors import Trouble, trouble_of

DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)
"""Among which are errors of ours: ask `trouble_of`."""

DATABASE_AWAY_SECONDS = 10
"""When to try again while the database is away, or a lock is held for too long."""

SENTENCE = "The database does not answer; try again in a moment.\n"


class DatabaseAway:
    """Middleware: status 503 with `Retry-After`, and one line in the log. The API has handlers of its own for that;
    below /api/ what they do not see gets the shape of its errors (`JsonErrors`)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The answer instead of what a view raised; None: it is no matter of the database being away."""
        if trouble_of(error) is Trouble.OURS:
            return None
        headers = {"Retry-After": str(DATABASE_AWAY_SECONDS)}
        answer = HttpResponse(SENTENCE, status=503, headers=headers, content_type="text/plain; charset=utf-8")
        said = " ".join(str(error).split())  # psycopg tells of each address on a line of its own
        log_response("no answer to %s: %s", request.path, said, response=answer, request=request)
        return answer
