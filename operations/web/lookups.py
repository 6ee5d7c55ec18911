"""A list of the admin that is asked for what its columns cannot hold, as the year 99999999, is shown unfiltered.

Django does that for what it finds wrong before it asks the database (`?e=1`); the rest would be a server error.

A search has bounds: 1,300 words made one statement that kept a thread busy for 2.5 s before the database had seen it.
"""

import logging
from collections.abc import Callable

from django.contrib.admin.options import IncorrectLookupParameters
from django.db.utils import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect

log = logging.getLogger(__name__)

ODD = (DataError, ValueError, OverflowError, IncorrectLookupParameters)
"""The last one from lists with a page of their own: Django's page handles it, and asks for no middleware."""

SEARCHES = ("q", "s", "term")
"""What lists, the search of all pages, and the choices of a field are searched by."""
MOST_WORDS = 32
MOST_CHARACTERS = 500
TOO_LONG = f"A search has at most {MOST_WORDS} words and {MOST_CHARACTERS} characters. Go back, and search for less.\n"


class OddLookups:
    """Middleware: for searches, for a list with filters in its address, and for what values can cause."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        for search in (request.GET.get(name, "") for name in SEARCHES):
            if len(search) > MOST_CHARACTERS or len(search.split()) > MOST_WORDS:
                return HttpResponseBadRequest(TOO_LONG, content_type="text/plain; charset=utf-8")
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        match = request.resolver_match
        is_list = match is not None and (match.url_name or "").endswith("_changelist")
        if not is_list or not set(request.GET) - {"e"} or not isinstance(error, ODD):
            return None
        log.warning("cannot filter %s by %.200r: %s", request.path, request.META.get("QUERY_STRING", ""), error)
        return HttpResponseRedirect(f"{request.path}?e=1")
