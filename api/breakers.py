"""Circuit breakers: look, close, probe."""

from collections.abc import Callable
from typing import Literal

from django.db.models import Q
from django.http import HttpRequest

from api.auth import operating
from api.errors import ApiError
from api.fields import Name, RowAnswer
from api.resources import Resource
from declarations.surfaces.web.permissions import may_look
from jobs import breakers
from jobs.breakers import verbs
from jobs.models import Breaker


class BreakerAnswer(
    RowAnswer, of=Breaker, names="id key title failures last_failure_at last_error opened_at probe_at trials"
):
    """A circuit breaker. `on trial`: open, with one record let through. `waiting`: how many records wait for it.

    `trials`: failed since it opened.
    """

    state: Literal["closed", "open", "on trial"]
    waiting: int


class Breakers(Resource[Breaker]):
    """Breakers, which machines write. Accounts that may see records may see them."""

    model, tag, answer = Breaker, "rules", BreakerAnswer
    filters, lookups = {"key": Name, "open": bool}, {"open": lambda is_open: Q(opened_at__isnull=not is_open)}
    computed, seen_by = {"state": breakers.state_of, "waiting": breakers.held_by}, (may_look,)
    orderings, usual_ordering = ("id", "key", "opened_at"), "opened_at"


resource = Breakers()
router = resource.router


@resource.verb("close", operating(), "Close an open breaker", has=["conflict"], noted="Closed")
def close(request: HttpRequest, breaker: Breaker) -> None:
    """Everything that waits for it becomes ready at the next tick. 409: it is not open."""
    _do(request, breaker, verbs.close)


@resource.verb("probe", operating(), "Let one record through as a trial", has=["conflict"], noted="Probed")
def probe(request: HttpRequest, breaker: Breaker) -> None:
    """Let one record through as a trial at the next tick; the others continue to wait. 409 if it is not open."""
    _do(request, breaker, verbs.probe_now)


def _do(request: HttpRequest, breaker: Breaker, verb: Callable[..., int]) -> None:
    if not verb([breaker.pk], by=str(request.user)):
        raise ApiError(409, "the breaker is not open", "there is nothing to do: everything goes through")
