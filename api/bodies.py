"""Limits on bodies: only small ones, of known length, with the content type of JSON, are read."""

import functools
import json
import math
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, UnreadablePostError
from ninja.parser import Parser

from api.errors import ApiError

LARGEST_BODY = 64 * 1024
"""Bytes. A check-in has a few hundred."""


class ObjectParser(Parser):
    """Reads objects only: a schema whose fields may all be left out would accept a list, too."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        return object_of(request.body)


def object_of(body: bytes) -> dict[str, Any]:
    """Raises: ValueError for JSON that is not an object, and for text that is not JSON, which has neither NaN nor
    infinity.
    """
    found: object = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _refuse(text: str) -> float:
    raise ValueError("not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def checked(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let an operation run only for requests whose body may be read; other bodies are not read at all.

    Django reads at most Content-Length bytes of a body, so that header is all there is to check: a longer body is cut
    off there. The body is read here, before anything looks at a clock: a slow sender must
    not check in as of the moment at which it began to send.
    """

    @functools.wraps(run)
    def checked_run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            _read(request)
        except ApiError as error:
            return error.response(request)
        return run(request, *args, **kwargs)

    return checked_run


def _read(request: HttpRequest) -> None:
    length = request.META.get("CONTENT_LENGTH") or ""
    if not length:
        if request.META.get("HTTP_TRANSFER_ENCODING"):
            raise ApiError(411)
        return
    if not (length.isascii() and length.isdecimal()):
        raise ApiError(400, hint="the header Content-Length is not a number")
    if len(length) > 9 or int(length) > LARGEST_BODY:
        raise ApiError(413, f"the body is larger than {LARGEST_BODY} bytes")
    if int(length) and request.content_type not in ("", "application/json"):
        raise ApiError(415)
    try:
        _ = request.body
    except UnreadablePostError as error:
        raise ApiError(400, "the body ended too early") from error
