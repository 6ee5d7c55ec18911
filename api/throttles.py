"""Throttles, with what they let through at this moment."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Field, Schema

from api.errors import ApiError
from api.fields import Body, Name, Title
from api.resources import Resource
from api.steps import DO_WHAT_IT_SAYS
from jobs import throttle_verbs, throttles
from jobs.models import Throttle
from jobs.models.throttle import MOST_A_SECOND, MOST_IN_FLIGHT
from jobs.throttle_verbs import SHOWN_NAMES
from schedules.models import Schedule


class ThrottleBody(Body):
    """`max_in_flight` 0: what names it is paused. `rate`: how many begin a second; null: as many as may run."""

    name: Title
    max_in_flight: Annotated[int, Field(ge=0, le=MOST_IN_FLIGHT)]
    rate: Annotated[float, Field(ge=0.001, le=MOST_A_SECOND)] | None = None
    burst: Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)] | None = None


class LiveThrottle(Schema):
    """`ready` and `waiting` are at least that many for a name in `at_least`. `tokens`, `next_token_in`: with a rate."""

    in_flight: int
    ready: int
    waiting: int
    tokens: float | None
    next_token_in: float | None
    at_least: list[str]


class ThrottleAnswer(Schema):
    """A throttle. `live` is no part of its ETag."""

    id: int
    name: str
    max_in_flight: int
    rate: float | None
    burst: int | None
    paused: bool
    live: LiveThrottle


class ThrottleFilters(Schema):
    """`paused`: lets nothing through."""

    name: Name | None = None
    paused: bool | None = None


class Throttles(Resource[Throttle]):
    """Throttles. An edit takes effect at the next claim."""

    model, name, plural, tag = Throttle, "throttle", "throttles", "throttles"
    body, answer, filters = ThrottleBody, ThrottleAnswer, ThrottleFilters
    orderings = ("id", "name", "max_in_flight")
    moving = ("live",)

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By name, and by whether they are paused."""
        paused = asked.pop("paused", None)
        if paused is not None:
            rows = rows.filter(max_in_flight=0) if paused else rows.exclude(max_in_flight=0)
        return rows.filter(**asked)

    def facts(self, rows: Sequence[Throttle]) -> list[dict[str, Any]]:
        """With what they do at this moment."""
        live = {each.throttle.pk: _live(each) for each in throttles.live([row.pk for row in rows])} if rows else {}
        return [self.own_facts(row) | {"paused": not row.max_in_flight, "live": live[row.pk]} for row in rows]

    def uses_of(self, row: Throttle) -> list[str]:
        """The schedules that name it, and its unfinished records. `remove` asks again, behind locks."""
        found = [told] if (told := _describe_schedules(row)) else []
        [live] = throttles.live([row.pk])
        if obstacle := throttle_verbs.obstacle_to_removing(live):
            found.append(f"{obstacle}. Let them end or cancel them first.")
        return found

    def remove(self, request: HttpRequest, row: Throttle) -> None:
        """Raises: ApiError (409) while a schedule or an unfinished record names it."""
        try:
            throttle_verbs.remove([row])
        except throttle_verbs.InUse as error:
            raise ApiError(409, f"the throttle is in use: {error}", DO_WHAT_IT_SAYS) from error


def _describe_schedules(throttle: Throttle) -> str:
    """Which schedules name it, with what to do; empty: none."""
    names = list(Schedule.objects.filter(throttle=throttle).order_by("name").values_list("name", flat=True))
    if not names:
        return ""
    shown = ", ".join(names[:SHOWN_NAMES]) + (f" and {len(names) - SHOWN_NAMES:,} more" if names[SHOWN_NAMES:] else "")
    told = f"{throttle.name} is named by the schedule{'s' if len(names) > 1 else ''} {shown}"
    return f"{told}. Choose another throttle, or none, there or in its policy."


def _live(live: throttles.Live) -> dict[str, Any]:
    names = ("in_flight", "ready", "waiting", "tokens", "next_token_in")
    return {name: getattr(live, name) for name in names} | {"at_least": sorted(live.at_least)}


router = Throttles().router()
