"""A NUL character in an address is refused: PostgreSQL keeps none, so every search and filter would fail at it."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

REFUSAL = "The address holds a NUL character (%00), which no name or text here can hold. Remove it and try again.\n"


class NulRefused:
    """Middleware: status 400 for a query with NUL, and for a path with one outside /api/, where it is just unknown.

    Below /api/ the answer has the shape of the API's errors.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "%00" in request.META.get("QUERY_STRING", "") or ("\0" in request.path and "/api/" not in request.path):
            return HttpResponseBadRequest(REFUSAL, content_type="text/plain; charset=utf-8")
        return self._get_response(request)
