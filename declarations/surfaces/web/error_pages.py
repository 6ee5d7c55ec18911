"""Answers in place of Django's bare error page: a sentence, and when to try again if that helps.

The API has its own handlers; errors below /api/ that do not reach them have the shape of its errors
(`api.errors.JsonErrors`).
"""

import logging
from collections.abc import Callable

from django.conf import settings
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ObjectDoesNotExist
from django.db import Error, InterfaceError, InternalError, OperationalError
from django.db.models import ProtectedError
from django.db.utils import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.utils.log import log_response

from declarations.surfaces.patience import PAGE_SECONDS, at_most, was_given_up
from jobs.conf import PROGRAM
from jobs.database_errors import DatabaseTrouble, code_of, trouble_of, what_to_do

log = logging.getLogger(__name__)

DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)
"""Errors of the database; some are our own fault, which `trouble_of` decides."""
DATABASE_AWAY_SECONDS = 10
"""Seconds after which to try again while the database is down, or a lock is held for too long."""

GIVEN_UP = (
    f"The page was given up: the database took more than {PAGE_SECONDS} s. "
    "Go back and ask for less: a shorter search, or one more filter."
)
CHANGED = "Another request has just deleted or changed what this page is about. Go back, and look again."
CLASHES = {"23503", "23505"}
"""A reference to a deleted row, and a name that is taken: forms check both, and the database checks again."""

NUL = "The address holds a NUL character (%00), which no name or text here can contain. Remove it and try again."
MOST_WORDS, MOST_CHARACTERS = 32, 500
"""1,300 words made one statement that kept a thread busy for 2.5 s before the database had seen it."""
TOO_LONG = f"A search has at most {MOST_WORDS} words and {MOST_CHARACTERS} characters. Go back, and search for less."
SEARCHES = ("q", "s", "term")
"""Parameters of searches: of lists, of all pages, and of the choices of a field."""

ODD = (DataError, ValueError, OverflowError, IncorrectLookupParameters)
"""Errors that values in a list's address can cause, such as the year 99999999; the last one comes from lists with their
own page.
"""

GetResponse = Callable[[HttpRequest], HttpResponse]


class Answers:
    """Middleware: 400 for addresses that no page can take, and an answer for errors that other requests, an odd filter
    or the database cause in a view."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # PostgreSQL keeps no NUL, so every search and filter would fail at it; in a path of the API it is just unknown
        if "%00" in request.META.get("QUERY_STRING", "") or ("\0" in request.path and "/api/" not in request.path):
            return _plain(NUL, 400)
        for search in (request.GET.get(name, "") for name in SEARCHES):
            if len(search) > MOST_CHARACTERS or len(search.split()) > MOST_WORDS:
                return _plain(TOO_LONG, 400)
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The answer in place of a view's exception; None if the fault is ours."""
        by_list = _unfiltered(request, error) or _unchosen(request, error) if _is_list(request) else None
        return by_list or _changed(request, error) or _away(request, error)


class PageTimeLimit:
    """Middleware, to be the last: each statement of a page that is only viewed is given up after 10 s. A form may take
    longer, and the API has its own limits. Without a session no page uses the database.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_asked = settings.SESSION_COOKIE_NAME in request.COOKIES and not request.path.startswith("/api/")
        if not is_asked or request.method not in ("GET", "HEAD"):
            return self._get_response(request)
        try:
            with at_most(PAGE_SECONDS):
                return self._get_response(request)
        except Error as error:  # no transaction could begin, or end
            if answer := _away(request, error):
                return answer
            raise


def _is_list(request: HttpRequest) -> bool:
    """True for a list of the admin."""
    match = request.resolver_match
    return match is not None and (match.url_name or "").endswith("_changelist")


def _unchosen(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """400 for an action on rows whose ids are none: no list offers them, and Django asks the database for them."""
    chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
    odd = [row_id for row_id in chosen if not row_id.isdecimal()]
    if not odd or not isinstance(error, ODD):
        return None
    return _plain(f"There is no row {odd[0][:80]!r}. Go back, and choose from the list.", 400)


def _unfiltered(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """Show a list unfiltered if its filter has values that its columns cannot hold, as Django does for errors that it
    finds before the query (`?e=1`)."""
    if not set(request.GET) - {"e"} or not isinstance(error, ODD):
        return None
    log.warning("cannot filter %s by %.200r: %s", request.path, request.META.get("QUERY_STRING", ""), error)
    return HttpResponseRedirect(f"{request.path}?e=1")


def _changed(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """409 for a page about a row that another request deletes at the same moment, with the traceback in the log."""
    if not isinstance(error, ObjectDoesNotExist | ProtectedError) and code_of(error) not in CLASHES:
        return None
    answer = _plain(CHANGED, 409)
    log_response("it changed in the meantime: %s", request.path, response=answer, request=request, exception=error)
    return answer


def _away(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """503 with `Retry-After`, and one line in the log, while the database does not answer, or not in time."""
    if trouble_of(error) is DatabaseTrouble.OURS:
        return None
    answer = _plain(GIVEN_UP, 503) if was_given_up(error) else _away_page()
    answer["Retry-After"] = str(DATABASE_AWAY_SECONDS)
    text = " ".join(str(error).split())  # psycopg has a line for each address
    log_response("no answer to %s: %s", request.path, text, response=answer, request=request)
    return answer


def _away_page() -> HttpResponse:
    """The page for a database that is down. It gets no request, since the usual context queries the database."""
    facts = {"seconds": DATABASE_AWAY_SECONDS, "program": PROGRAM, "hint": what_to_do()}
    return HttpResponse(render_to_string("declarations/away.html", facts), status=503)


def _plain(sentence: str, status: int) -> HttpResponse:
    return HttpResponse(f"{sentence}\n", status=status, content_type="text/plain; charset=utf-8")
