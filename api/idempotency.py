"""`Idempotency-Key`: a request that creates something, sent twice with one key, creates it once.

The answer is stored in the transaction that creates, so the one is there if and only if the other is: a program that
was cut off sends the same again and gets the first answer, and a process that dies in between leaves no obstacle
behind. While the first request runs, its key is held by an advisory lock of its transaction: a second one is refused
(409) at once. Only successes are stored: after a refusal a corrected request may be sent with that key. Keys belong to
the token, or the user of the session, that sent them. They are kept for a day.
"""

import re
from collections.abc import Callable

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare, salted_hmac

from api.auth import token_of
from api.errors import ApiError, not_valid
from api.models import IdempotencyKey
from api.old_rows import KEYS_KEPT_FOR
from jobs.clock import database_clock

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEY = re.compile(r"[!-~]{1,255}")

KEPT_HEADERS = ("Location", "ETag", "Content-Type")

LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"


def once(request: HttpRequest, create: Callable[[], HttpResponse]) -> HttpResponse:
    """The answer of `create`, which runs in one transaction; or the stored one if the request's key was used before.

    Raises: ApiError: 409 while another request with that key runs, 422 for a key of another request, or no key at all;
    and the exceptions of `create`, in which case nothing is stored.
    """
    key = request.headers.get(HEADER)
    with transaction.atomic():
        if key is None:
            return create()
        if not KEY.fullmatch(key):
            raise not_valid([(HEADER, "must be 1 to 255 visible ASCII characters, such as a UUID")])
        token = token_of(request)
        owner = f"token {token.pk}" if token else f"user {request.user.pk}"
        digest = _digest(request)
        _hold(owner, key)
        if stored := _stored(owner, key):
            return _replay(stored, digest)
        response = create()
        IdempotencyKey.objects.create(
            owner=owner,
            key=key,
            request_digest=digest,
            status=response.status_code,
            headers={name: response[name] for name in KEPT_HEADERS if name in response},
            body=response.content.decode(),
        )
        return response


def _hold(owner: str, key: str) -> None:
    """Raises: ApiError (409)."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK, [f"idempotency key {owner} {key}"])
        if not cursor.fetchone()[0]:
            hint = "wait for its answer, or send the same again in a second"
            raise ApiError(409, "a request with this Idempotency-Key is still running", hint, {"Retry-After": "1"})


def _stored(owner: str, key: str) -> IdempotencyKey | None:
    """The answer stored under a key. One older than a day is deleted instead."""
    stored = IdempotencyKey.objects.filter(owner=owner, key=key).first()
    if stored is not None and stored.created_at <= database_clock() - KEYS_KEPT_FOR:
        stored.delete()
        return None
    return stored


def _replay(stored: IdempotencyKey, digest: str) -> HttpResponse:
    """Raises: ApiError (422)."""
    if not constant_time_compare(stored.request_digest, digest):
        hint = "use a new key for a new request; the same key repeats the same request"
        raise ApiError(422, hint=hint, errors=[(HEADER, "was used for another request")])
    headers = stored.headers | {REPLAYED: "true"}
    return HttpResponse(stored.body, status=stored.status or 200, headers=headers)


def _digest(request: HttpRequest) -> str:
    """The digest of method, path and body; keyed, since a body may hold a secret that could be guessed."""
    text = b"\n".join([str(request.method).encode(), request.get_full_path().encode(), request.body])
    return salted_hmac("api.idempotency", text, algorithm="sha256").hexdigest()
