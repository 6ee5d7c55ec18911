"""Circuit breakers: look, close, probe."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from api import history
from api.auth import Staff, operating
from api.errors import ApiError
from api.models import Scope
from api.resources import Resource
from api.schemas import BreakerAnswer, BreakerFilters
from jobs import breakers
from jobs.breakers import verbs
from jobs.models import Breaker
from operations.web.permissions import may_look


class Breakers(Resource[Breaker]):
    """Breakers, which machines write."""

    model, name, plural, tag = Breaker, "breaker", "breakers", "rules"
    answer, filters = BreakerAnswer, BreakerFilters
    orderings = ("id", "key", "opened_at")
    usual_ordering = "opened_at"

    def permits(self, verb: str) -> Staff:
        """Who may look at records may look at breakers."""
        return Staff(Scope.READ, may_look, "jobs.view_breaker", "jobs.change_breaker")

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By key, and by whether they are open."""
        opened = asked.pop("open", None)
        if opened is not None:
            rows = rows.filter(opened_at__isnull=not opened)
        return rows.filter(**asked)

    def facts(self, rows: Sequence[Breaker]) -> list[dict[str, Any]]:
        """With their state and how many wait for them."""
        return [
            self.own_facts(row) | {"state": breakers.state_of(row), "waiting": breakers.held_by(row)} for row in rows
        ]


resource = Breakers()
router = resource.router()


@resource.verb(router, "close", operating(), "Close an open breaker", has=["conflict"])
def close(request: HttpRequest, breaker_id: int) -> HttpResponse:
    """Everything that waits for it becomes ready at the next tick. 409: it is not open."""
    return _do(request, breaker_id, verbs.close, "Closed")


@resource.verb(router, "probe", operating(), "Let one record through as a trial", has=["conflict"])
def probe(request: HttpRequest, breaker_id: int) -> HttpResponse:
    """At the next tick; the others wait on. 409: it is not open."""
    return _do(request, breaker_id, verbs.probe_now, "Probed")


def _do(request: HttpRequest, breaker_id: int, verb: Callable[..., int], done: str) -> HttpResponse:
    breaker = resource.get(breaker_id)
    if not verb([breaker_id], by=str(request.user)):
        raise ApiError(409, "the breaker is not open", "there is nothing to do: everything goes through")
    history.noted(request, breaker, done)
    return resource.respond(resource.get(breaker_id))
