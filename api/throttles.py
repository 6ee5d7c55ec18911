"""Throttles, with what they let through at this moment."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from ninja import Schema

from api.fields import Name
from api.resources import Resource
from jobs import models
from operations import throttles
from operations.declarations import Throttle, Throttles


class LiveThrottle(Schema):
    """`ready` and `waiting` are at least that many for a name in `at_least`. `tokens`, `next_token_in`: with a rate."""

    in_flight: int
    ready: int
    waiting: int
    tokens: float | None
    next_token_in: float | None
    at_least: list[str]


class ThrottleAnswer(Throttle):
    """A throttle. `live` is no part of its ETag."""

    id: int
    paused: bool
    live: LiveThrottle


class ThrottleFilters(Schema):
    """`paused`: lets nothing through."""

    name: Name | None = None
    paused: bool | None = None


class ThrottlesOfTheApi(Resource[models.Throttle]):
    """Throttles. An edit takes effect at the next claim."""

    service, tag = Throttles, "throttles"
    answer, filters = ThrottleAnswer, ThrottleFilters
    orderings = ("id", "name", "max_in_flight")
    moving = ("live",)

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By name, and by whether they are paused."""
        paused = asked.pop("paused", None)
        if paused is not None:
            rows = rows.filter(max_in_flight=0) if paused else rows.exclude(max_in_flight=0)
        return rows.filter(**asked)

    def facts(self, rows: Sequence[models.Throttle]) -> list[dict[str, Any]]:
        """With what they do at this moment."""
        live = {each.throttle.pk: _live(each) for each in throttles.live([row.pk for row in rows])} if rows else {}
        return [self.own_facts(row) | {"paused": not row.max_in_flight, "live": live[row.pk]} for row in rows]


def _live(live: throttles.Live) -> dict[str, Any]:
    names = ("in_flight", "ready", "waiting", "tokens", "next_token_in")
    return {name: getattr(live, name) for name in names} | {"at_least": sorted(live.at_least)}


router = ThrottlesOfTheApi().router()
