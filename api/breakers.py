"""Circuit breakers: look, close, probe."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from django.db.models import Q
from django.http import HttpRequest
from ninja import Schema

from api.auth import Staff, operating
from api.errors import ApiError
from api.fields import Name
from api.models import Scope
from api.resources import Resource
from jobs import breakers
from jobs.breakers import verbs
from jobs.models import Breaker
from operations.web.permissions import may_look


class BreakerAnswer(Schema):
    """A circuit breaker. `on trial`: open, with one record let through. `waiting`: how many records wait for it.

    `trials`: failed since it opened.
    """

    id: int
    key: str
    title: str
    state: Literal["closed", "open", "on trial"]
    failures: int
    last_failure_at: datetime | None
    last_error: str
    opened_at: datetime | None
    probe_at: datetime | None
    trials: int
    waiting: int


class Breakers(Resource[Breaker]):
    """Breakers, which machines write."""

    model, tag, answer = Breaker, "rules", BreakerAnswer
    filters, lookups = {"key": Name, "open": bool}, {"open": lambda is_open: Q(opened_at__isnull=not is_open)}
    orderings, usual_ordering = ("id", "key", "opened_at"), "opened_at"

    def permits(self, verb: str) -> Staff:
        """Who may look at records may look at breakers."""
        return Staff(Scope.READ, may_look, "jobs.view_breaker", "jobs.change_breaker")

    def facts(self, rows: Sequence[Breaker]) -> list[dict[str, Any]]:
        """With their state and how many wait for them."""
        return [
            self.own_facts(row) | {"state": breakers.state_of(row), "waiting": breakers.held_by(row)} for row in rows
        ]


resource = Breakers()
router = resource.router


@resource.verb("close", operating(), "Close an open breaker", has=["conflict"], noted="Closed")
def close(request: HttpRequest, breaker: Breaker) -> None:
    """Everything that waits for it becomes ready at the next tick. 409: it is not open."""
    _do(request, breaker, verbs.close)


@resource.verb("probe", operating(), "Let one record through as a trial", has=["conflict"], noted="Probed")
def probe(request: HttpRequest, breaker: Breaker) -> None:
    """At the next tick; the others wait on. 409: it is not open."""
    _do(request, breaker, verbs.probe_now)


def _do(request: HttpRequest, breaker: Breaker, verb: Callable[..., int]) -> None:
    if not verb([breaker.pk], by=str(request.user)):
        raise ApiError(409, "the breaker is not open", "there is nothing to do: everything goes through")
