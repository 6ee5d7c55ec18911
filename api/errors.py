"""Every error of the API is a problem document (RFC 9457), whether the API, Django or the database refuses.

    {"type": "about:blank", "title": "Not Found", "status": 404, "detail": what is wrong, "hint": what to do,
     "instance": "/api/schedules/7", "errors": [{"field", "message"}]}

`errors` comes with 422, and with a 400 that names a field. `type` is always `about:blank`: the status gives the sort
of a problem. `instance` is the path, where there is something at it. Nothing else repeats sent values: one may be
a secret.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.exceptions import DisallowedHost, ObjectDoesNotExist
from django.db import DataError, IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from declarations.problems import field_of, message_of
from declarations.surfaces.web.error_pages import DATABASE_AWAY, DATABASE_AWAY_SECONDS
from jobs.database_errors import DatabaseTrouble, code_of, trouble_of
from operations.limits import TooMany

log = logging.getLogger(__name__)

ROOT = "/api/"

CONTENT_TYPE = "application/problem+json"

NOT_KEPT = "no-store"
"""No cache keeps an answer: some contain secrets that are shown once, and ETags here do not cover machine-written
fields."""

USUAL = {
    400: ("the request cannot be read", "send one JSON object, encoded in UTF-8"),
    401: ("not accepted", "log in at /admin/, or send a valid token as `Authorization: Bearer TOKEN`"),
    403: ("not allowed", "sessions need their CSRF token, and their user the permission"),
    404: ("there is nothing here", "/api/docs lists all addresses"),
    405: ("this method is not allowed here", "the header Allow names those that are"),
    409: ("it cannot be done in the present state", "look at it again"),
    411: ("the length of the body is missing", "send the header Content-Length"),
    412: ("it was changed in the meantime", "read it again, and send its new ETag as If-Match"),
    413: ("the body is too large", "the bodies of this API are small JSON objects"),
    415: ("the body is not JSON", "send `Content-Type: application/json`"),
    422: ("the request is not valid", "correct the fields that `errors` names; /api/docs has their form"),
    429: ("too many requests", "try again later"),
    500: ("the server failed", "try again later; the log of the web process has the cause"),
    503: ("the database cannot answer now", "try again later"),
}
"""Status → the problem, which also describes it in the document, and the advice."""

WRONG_HOST = (
    "this server does not have that host name",
    "ask it by one that it has, or have this one added to its setting ALLOWED_HOSTS",
)

LOCKED = "55P03"
"""PostgreSQL's code for a lock that was not obtained in time."""

LONGEST_NAME = 100

MOST_ERRORS = 100
"""The most problems of one answer: a body may hold thousands of wrong fields."""

FieldErrors = Sequence[tuple[str, str]]
"""(field, its problem). A field `""` is the whole."""


class FieldProblem(Schema):
    """A problem with one field of the body, one query parameter or one header. `field` is empty if it concerns the
    whole.
    """

    field: str
    message: str


class Problem(Schema):
    """A problem document (RFC 9457). `hint`: what to do. `errors` comes with status 422, and with a 400 that
    names a field."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    instance: str | None = None
    errors: list[FieldProblem] = []


class ApiError(Exception):
    """An answer that is a problem document. `detail` and `hint` are taken from `USUAL` if they are empty.

    `errors`: problems by field; they make up the detail if that is empty.
    """

    def __init__(
        self,
        status: int,
        detail: str = "",
        hint: str = "",
        headers: dict[str, str] | None = None,
        errors: FieldErrors = (),
    ) -> None:
        super().__init__(status, detail)
        usual_detail, usual_hint = USUAL.get(status, (f"refused with status {status}", "see /api/docs"))
        by_field = "; ".join(f"{field}: {message}" if field else message for field, message in errors)
        self.status, self.detail, self.hint = status, detail or by_field or usual_detail, hint or usual_hint
        self.headers = {**({"WWW-Authenticate": "Bearer"} if status == 401 else {}), **(headers or {})}
        self.errors = errors or ([("", self.detail)] if status == 422 else [])

    def response(self, request: HttpRequest) -> HttpResponse:
        """The answer to `request`."""
        known = self.status in HTTPStatus.__members__.values()
        title = HTTPStatus(self.status).phrase if known else f"Status {self.status}"
        body: dict[str, Any] = {
            "type": "about:blank", "title": title, "status": self.status, "detail": self.detail, "hint": self.hint,
        }  # fmt: skip
        if getattr(request, "resolver_match", None) is not None:
            body["instance"] = quote(request.path)
        if self.errors:
            body["errors"] = [{"field": field, "message": message} for field, message in self.errors]
        return JsonResponse(body, status=self.status, headers=self.headers, content_type=CONTENT_TYPE)


def not_valid(errors: FieldErrors, hint: str = "") -> ApiError:
    """Status 422 with problems by field."""
    return ApiError(422, hint=hint, errors=errors)


def field_errors(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(field, message) of each of pydantic's errors, as the API framework gives them; at most 100, none twice."""
    found = {(_field(each["loc"]), message_of(each)): None for each in errors}
    return list(found)[:MOST_ERRORS]


def _field(location: Sequence[Any]) -> str:
    """The name of a field as its sender knows it: without `body` and the name of our parameter."""
    if not location:
        return "body"
    ours = 2 if location[0] == "body" or (location[0] == "query" and location[1:2] == ("query",)) else 1
    return shown(field_of(location[ours:])) or str(location[0])


def shown(name: str) -> str:
    """A name that was sent, as it may be shown: one short line that steers nothing."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain if len(plain) <= LONGEST_NAME else f"{plain[:LONGEST_NAME]}…"


def _too_many(seconds: float) -> ApiError:
    wait = max(1, math.ceil(seconds))
    return ApiError(429, "", f"try again in {wait} s", {"Retry-After": str(wait)})


def add_handlers(api: NinjaAPI) -> None:
    """Make problem documents of the errors of django-ninja and of the database, too."""
    handlers: dict[type[Exception], Callable[[HttpRequest, Any], ApiError]] = {
        ApiError: lambda request, error: error,
        AuthenticationError: lambda request, error: ApiError(401),
        Throttled: lambda request, error: _too_many(error.wait or 60),
        TooMany: lambda request, error: _too_many(error.seconds),
        HttpError: lambda request, error: ApiError(error.status_code),
        ValidationError: lambda request, error: not_valid(field_errors(error.errors)),
        Http404: lambda request, error: ApiError(404),
        ObjectDoesNotExist: _deleted_in_between,
        **dict.fromkeys(DATABASE_AWAY, database_away),
        IntegrityError: _clash,
        DataError: _not_storable,
    }

    def answered(handler: Callable[[HttpRequest, Any], ApiError], request: HttpRequest, error: Any) -> HttpResponse:
        return handler(request, error).response(request)

    for exception, handler in handlers.items():
        api.add_exception_handler(exception, partial(answered, handler))


def database_away(request: HttpRequest, error: Exception) -> ApiError:
    """Status 503, with a line in the log. Raises: `error` if the fault is ours."""
    if trouble_of(error) is DatabaseTrouble.OURS:
        raise error
    log.error("an answer was not possible: %s", error)
    detail = "another change to it did not end in time" if code_of(error) == LOCKED else ""
    return ApiError(503, detail, headers={"Retry-After": str(DATABASE_AWAY_SECONDS)})


def _deleted_in_between(request: HttpRequest, error: Exception) -> ApiError:
    """Every operation looks for its row first, and then locks it: in between another one may have deleted it."""
    log.warning("the requested row was deleted in the meantime: %s", error, exc_info=error)
    return ApiError(404, "it was deleted in the meantime", "read the list again")


def _clash(request: HttpRequest, error: Exception) -> ApiError:
    """The error of a clash at the commit, where references are checked: their rows may be gone by then."""
    log.warning("the request clashes with what others saved: %s", error)
    return ApiError(409, "it clashes with a change that was saved in the meantime")


def _not_storable(request: HttpRequest, error: Exception) -> ApiError:
    log.error("the database refused a value that was not refused here: %s", error)
    return ApiError(422, "the database cannot hold one of the values", "send smaller numbers and plain text")


class JsonErrors:
    """Middleware: refusals of Django itself below /api/ (404, 405, a wrong host, 500) are problem documents, too.

    And no cache keeps answers of the API.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if not request.path.startswith(ROOT):
            return response
        response.headers.setdefault("Cache-Control", NOT_KEPT)
        ours = response.headers.get("Content-Type", "").startswith(CONTENT_TYPE)
        if response.status_code < 400 or ours or (response.status_code >= 500 and settings.DEBUG):
            return response
        kept = {name: response[name] for name in ("Allow", "Retry-After") if name in response}
        try:
            request.get_host()
            detail = hint = ""
        except DisallowedHost:
            detail, hint = WRONG_HOST
        return ApiError(response.status_code, detail, hint, {"Cache-Control": NOT_KEPT, **kept}).response(request)
