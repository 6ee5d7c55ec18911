"""Tokens of users, by which programs prove their identity at the API. Only their digests are stored.

A token acts as its user, within its scopes: it is never allowed more than that user. It ends when it expires, when it
is revoked, and while its user is not active; the answer is then the same as for a wrong token.
"""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from api.models import ApiToken, Scope
from jobs.clock import database_clock

PREFIX = "bst_"
"""The prefix by which a token that turns up in a log or a repository is recognised."""

USED_AT_PRECISION = timedelta(minutes=1)
"""`used_at` is written at most this often."""

KEPT_FOR = timedelta(days=90)
"""The time for which a token's row stays after its end, to show until when it could be used."""

LONGEST_NAME = 100


@dataclass(frozen=True)
class IssuedToken:
    """A new token: its row, and its text, which is shown nowhere else."""

    token: ApiToken
    text: str


def issue(
    user: Any, name: str, scopes: Iterable[str], expires_at: datetime | None = None, now: datetime | None = None
) -> IssuedToken:
    """Make a token for `user`. `expires_at`: aware; None if it does not expire.

    Raises: ValueError for an empty name, a name that cannot be shown, no scope or an unknown one, or an end in the
    past.
    """
    chosen = set(scopes)
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"name the token: 1 to {LONGEST_NAME} printable characters, such as the program that uses it")
    if not chosen or chosen - set(Scope.values):
        raise ValueError(f"give it scopes: some of {', '.join(Scope.values)}")
    if expires_at is not None and expires_at <= (now or database_clock()):
        raise ValueError("it would have expired already: choose an end in the future")
    text = PREFIX + secrets.token_urlsafe(32)
    ordered = [scope for scope in Scope.values if scope in chosen]
    token = ApiToken.objects.create(
        user=user, name=name.strip(), scopes=ordered, digest=_digest(text), expires_at=expires_at
    )
    token.refresh_from_db()
    return IssuedToken(token, text)


def authenticate(text: str, now: datetime | None = None) -> ApiToken | None:
    """The token that `text` is, with its user. None if it is unknown, ended or not a token at all.

    One lookup by digest, whatever the text looks like, so that all of these take the same time. An accepted one costs
    a write at most once a minute.
    """
    token = ApiToken.objects.select_related("user").annotate(clock=Now()).filter(digest=_digest(text)).first()
    if token is None or state_of(token, instant := now or token.clock) != "valid":
        return None
    if token.used_at is None or not timedelta(0) <= instant - token.used_at < USED_AT_PRECISION:  # a clock was ahead
        ApiToken.objects.filter(pk=token.pk).update(used_at=instant)
    return token


def revoke(token_id: int, now: datetime | None = None) -> bool:
    """End a token. Returns whether it had not been revoked before (it may have expired)."""
    valid = ApiToken.objects.filter(pk=token_id, revoked_at=None)
    return bool(valid.update(revoked_at=now or database_clock()))


def state_of(token: ApiToken, now: datetime) -> str:
    """`valid`, `revoked`, `expired`, or `user inactive`."""
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return "expired"
    return "valid" if token.user.is_active else "user inactive"


def prune(now: datetime | None = None) -> int:
    """Delete the tokens that ended long ago. Returns how many."""
    before = (now or database_clock()) - KEPT_FOR
    deleted, _ = ApiToken.objects.filter(Q(revoked_at__lt=before) | Q(expires_at__lt=before)).delete()
    return deleted


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
