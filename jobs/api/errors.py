"""Every error of the API in one shape: `{"error": what is wrong, "hint": what to do}`.

No message repeats what was sent: it may be a secret.
"""

import logging
import math
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

log = logging.getLogger(__name__)

ROOT = "/api/"

DATABASE_AWAY_SECONDS = 10
"""When to try again while the database is away, or a lock is held for too long."""

USUAL: dict[int, tuple[str, str]] = {
    400: ("the request cannot be read", "send one JSON object, encoded in UTF-8"),
    401: ("not accepted", "log in at /admin/, or send a valid token as `Authorization: Bearer TOKEN`"),
    403: ("not allowed", "sessions need their CSRF token, and their user the permission"),
    404: ("there is nothing here", "/api/docs lists what there is"),
    405: ("this method is not allowed here", "the header Allow names those that are"),
    411: ("the length of the body is missing", "send the header Content-Length"),
    413: ("the body is too large", "a body of this API is a small JSON object"),
    415: ("the body is not JSON", "send `Content-Type: application/json`"),
    500: ("the server failed", "try again later; its log says what happened"),
    503: ("the database cannot answer now", "try again later"),
}


class ApiError(Exception):
    """An answer that is an error. `error` and `hint` are taken from `USUAL` where they are empty."""

    def __init__(self, status: int, error: str = "", hint: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(status, error)
        self.status, self.error, self.hint, self.headers = status, error, hint, headers or {}

    def response(self) -> HttpResponse:
        """The answer."""
        return error_response(self.status, self.error, self.hint, self.headers)


def error_response(status: int, error: str = "", hint: str = "", headers: dict[str, str] | None = None) -> HttpResponse:
    """An error in the one shape."""
    usual_error, usual_hint = USUAL.get(status, (f"refused with status {status}", "see /api/docs"))
    found = {**({"WWW-Authenticate": "Bearer"} if status == 401 else {}), **(headers or {})}
    return JsonResponse({"error": error or usual_error, "hint": hint or usual_hint}, status=status, headers=found)


def too_many(seconds: float) -> ApiError:
    """Status 429: try again in `seconds`."""
    wait = max(1, math.ceil(seconds))
    return ApiError(429, "too many requests", f"try again in {wait} s", {"Retry-After": str(wait)})


def add_handlers(api: NinjaAPI) -> None:
    """Give the errors of django-ninja and of the database the one shape, too."""
    handlers: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
        ApiError: lambda request, error: error.response(),
        AuthenticationError: lambda request, error: error_response(401),
        Throttled: lambda request, error: too_many(error.wait or 60).response(),
        HttpError: lambda request, error: error_response(error.status_code),
        ValidationError: _not_valid,
        Http404: lambda request, error: error_response(404),
        OperationalError: _database_away,
        InterfaceError: _database_away,
    }
    for exception, handler in handlers.items():
        api.add_exception_handler(exception, handler)


def _not_valid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    found = "; ".join(f"{_field(each['loc'])}: {each['msg'].removeprefix('Value error, ')}" for each in error.errors)
    return error_response(422, found, "correct what is named; /api/docs says how it looks")


def _field(location: tuple[Any, ...]) -> str:
    """The name of a field as its sender knows it: without `body` and the name of our parameter."""
    inner = location[2:] if location and location[0] == "body" else location[1:]
    return ".".join(str(part) for part in inner) or "body"


def _database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    log.error("an answer was not possible: %s", error)
    return error_response(503, headers={"Retry-After": str(DATABASE_AWAY_SECONDS)})


class JsonErrors:
    """Middleware: what Django itself refuses below /api/ (404, 405, a wrong host, 500) has the one shape as well."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if response.status_code < 400 or not request.path.startswith(ROOT):
            return response
        if response.headers.get("Content-Type", "").startswith("application/json"):
            return response
        if response.status_code >= 500 and settings.DEBUG:
            return response
        kept = {name: response[name] for name in ("Allow", "Retry-After") if name in response}
        return error_response(response.status_code, headers=kept)
