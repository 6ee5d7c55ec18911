"""A page about what another request deletes at the same moment: a sentence, instead of Django's bare error page."""

from collections.abc import Callable

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import ProtectedError
from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response

from jobs.database_errors import code_of

CLASHES = {"23503", "23505"}
"""A reference to what is gone, and a name that is taken: forms check both, and the database checks again."""

SENTENCE = "Another request has just deleted or changed what this page is about. Go back, and look again.\n"


class Meanwhile:
    """Middleware: status 409, with the traceback in the log. The API has handlers of its own for that."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The answer instead of what a view raised; None: it is nothing that another request did."""
        if not isinstance(error, ObjectDoesNotExist | ProtectedError) and code_of(error) not in CLASHES:
            return None
        answer = HttpResponse(SENTENCE, status=409, content_type="text/plain; charset=utf-8")
        log_response("it changed meanwhile: %s", request.path, response=answer, request=request, exception=error)
        return answer
