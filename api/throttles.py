"""Throttles, with the records that they let through at this moment."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from ninja import Field, Query, Schema

from api.auth import Staff
from api.declared_resources import DeclaredResource
from api.errors import ApiError
from api.fields import Name, RowAnswer
from api.models import Scope
from api.pausing import PauseRequest
from jobs import models
from operations import throttle_pauses, throttles
from operations.declarations import MOST_IN_FLIGHT, ThrottleDeclaration, Throttles

PAUSING = Staff(Scope.OPERATE, "jobs.change_throttle")


class LiveThrottle(RowAnswer, of=throttles.Live, names="in_flight ready waiting tokens next_token_in"):
    """`ready` and `waiting` are at least that many for a name in `at_least`. `tokens`, `next_token_in`: with a rate."""

    at_least: list[str]


class ThrottleAnswer(ThrottleDeclaration):
    """A throttle. `paused`: it lets nothing through."""

    id: int
    paused: bool
    paused_until: datetime | None = Field(
        description="When it is resumed automatically; null if a user has to resume it"
    )
    paused_why: str
    live: LiveThrottle


class ThrottlesOfTheApi(DeclaredResource[models.Throttle]):
    """Throttles. An edit takes effect at the next claim."""

    service, tag, answer = Throttles, "throttles", ThrottleAnswer
    filters = {"name": Name, "paused": bool}
    lookups = {"paused": lambda paused: Q(max_in_flight=0) if paused else ~Q(max_in_flight=0)}
    computed = {"paused": lambda throttle: not throttle.max_in_flight}
    orderings = ("id", "name", "max_in_flight")

    def facts(self, rows: Sequence[models.Throttle]) -> list[dict[str, Any]]:
        """The answers' fields, with the throttles' present state."""
        live = {each.throttle.pk: _live(each) for each in throttles.live([row.pk for row in rows])} if rows else {}
        return [self.own_facts(row) | {"live": live[row.pk]} for row in rows]


def _live(live: throttles.Live) -> dict[str, Any]:
    return {name: getattr(live, name) for name in LiveThrottle.model_fields} | {"at_least": sorted(live.at_least)}


resource = ThrottlesOfTheApi()
router = resource.router


class ResumeQuery(Schema):
    """The number of its records that may be in flight at once; if it is left out, the number from before its pause."""

    max_in_flight: int | None = Field(None, ge=1, le=MOST_IN_FLIGHT)


@resource.verb("pause", PAUSING, "Pause a throttle", has=["conflict"])
def pause(request: HttpRequest, throttle: models.Throttle, query: Query[PauseRequest]) -> None:
    """None of its records begins until it is resumed, by a user or automatically at `until`. Running records
    continue.
    """
    try:
        throttle_pauses.pause(throttle, **query.checked())
    except ValueError as error:
        raise ApiError(409, str(error), "resume it with max_in_flight first") from error


@resource.verb("resume", PAUSING, "Resume a throttle", has=["conflict"])
def resume(request: HttpRequest, throttle: models.Throttle, query: Query[ResumeQuery]) -> None:
    """Its records begin again."""
    try:
        throttle_pauses.resume(throttle, query.max_in_flight)
    except ValueError as error:
        raise ApiError(409, str(error), "name max_in_flight") from error
