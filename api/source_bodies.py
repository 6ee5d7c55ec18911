"""Whom a body names."""

import json

from django.http import HttpRequest

from api.errors import ApiError
from sources.models import Source


def check_names_only(source: Source, request: HttpRequest) -> None:
    """The token decides which source is spoken of; a body may repeat its name. Raises: ApiError (403) for another one.

    Whether that other source exists is not looked up.
    """
    try:
        body = json.loads(request.body) if request.body else None
    except (ValueError, RecursionError):
        return  # the operation refuses it in its own words, if it reads it
    if isinstance(body, dict) and body.get("source") not in (None, source.name):
        raise ApiError(403, "this token speaks for another source", "leave out `source`: the token decides it")
