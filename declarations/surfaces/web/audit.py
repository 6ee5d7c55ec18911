"""The actor of a request, for the audit; and notes of actions that no row shows, one for each action."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from audit.actors import Actor, acting
from audit.entries import note as write
from jobs.models import BacklogRecord

__all__ = ["ActorMiddleware", "actor_of", "note", "write"]


class ActorMiddleware:
    """Middleware, after the one for accounts: the actor of a request's changes is its signed-in user, or the user of
    its token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with acting(lambda: actor_of(request)):
            return self._get_response(request)


def actor_of(request: HttpRequest) -> Actor:
    """The actor of a request, determined when something is written: a token is known by then."""
    user: Any = getattr(request, "user", None)
    name = user.get_username() if user is not None and user.is_authenticated else ""
    token = getattr(request, "api_token", None)
    way = f"API, token {token.name}" if token else "API" if "/api/" in request.path else "web"
    return Actor(name or f"no account, from {request.META.get('REMOTE_ADDR', 'nowhere')}", way)


def note(what: str, result: str, record_id: int | None = None) -> None:
    """Note that `what` (such as `Retry now`) was done to one record or to many, with the result."""
    about = f"record {record_id}" if record_id is not None else "backlog records"
    write(BacklogRecord, record_id, f"{about}: {what}", result)
