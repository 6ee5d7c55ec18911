"""Check-ins as a fleet sends them every few minutes, answered before Django begins with a request.

Django, its middlewares and django-ninja took most of a check-in's time, and 100,000 agents make 333 a second. They
handle everything unusual, as if nothing had been tried here: a wrong token, an invalid body, a limit that is reached,
news of the source, a dead connection to the database. So they alone report errors.
"""

import json
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.http.request import split_domain_port, validate_host

from api.agent_auth import REQUESTS, source_known_by
from api.agent_messages import CheckInRequest, status_of
from api.bodies import LARGEST_BODY, object_of
from api.errors import NOT_KEPT, ROOT
from sources.agents.checkins import check_in_as_usual

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

HEADERS = [
    ("Content-Type", "application/json; charset=utf-8"),
    ("Cache-Control", NOT_KEPT),
    ("X-Content-Type-Options", "nosniff"),
]


def usual_check_ins(application: Application) -> Application:
    """Answer check-ins that are as usual, and leave all other requests to `application`."""

    def answered(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] != f"{ROOT}check-in" or not _is_readable(environ):
            return application(environ, start_response)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        try:
            answer = _answer(environ, body)
        except Exception:  # Django meets it again, answers it and logs it
            answer = None
        if answer is None:
            return application({**environ, "wsgi.input": BytesIO(body)}, start_response)
        start_response("200 OK", [*HEADERS, ("Content-Length", str(len(answer)))])
        return [answer]

    return answered


def _is_readable(environ: dict[str, Any]) -> bool:
    """True for a request to this host, over the right scheme, with a body that may be read."""
    length = environ.get("CONTENT_LENGTH") or ""
    return (
        environ["REQUEST_METHOD"] == "POST"
        and not environ.get("QUERY_STRING")
        and environ.get("CONTENT_TYPE") == "application/json"
        and (length.isascii() and length.isdecimal() and len(length) <= 9 and int(length) <= LARGEST_BODY)
        and (environ["wsgi.url_scheme"] == "https" or not settings.SECURE_SSL_REDIRECT)
        and validate_host(split_domain_port(environ.get("HTTP_HOST", ""))[0], settings.ALLOWED_HOSTS)
    )


def _answer(environ: dict[str, Any], body: bytes) -> bytes | None:
    """The answer; None, or any exception: it is not as usual."""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    read = object_of(body)
    if scheme != "Bearer" or "source" in read:
        return None
    facts = CheckInRequest.model_validate(read).facts()
    if (source := source_known_by(token)) is None:
        return None
    REQUESTS.check(source)
    found = check_in_as_usual(token, facts, environ["REMOTE_ADDR"])
    if found is None:
        return None
    REQUESTS.spend(source)
    return json.dumps(status_of(found.source, found.now, found.standings), cls=DjangoJSONEncoder).encode()
