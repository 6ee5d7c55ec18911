"""Throttles, with what they let through at this moment."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from api.declared import Declared
from api.fields import Name, Stored
from jobs import models
from operations import throttles
from operations.declarations import Throttle, Throttles


class LiveThrottle(Stored, of=throttles.Live, names="in_flight ready waiting tokens next_token_in"):
    """`ready` and `waiting` are at least that many for a name in `at_least`. `tokens`, `next_token_in`: with a rate."""

    at_least: list[str]


class ThrottleAnswer(Throttle):
    """A throttle. `paused`: it lets nothing through."""

    id: int
    paused: bool
    live: LiveThrottle


class ThrottlesOfTheApi(Declared[models.Throttle]):
    """Throttles. An edit takes effect at the next claim."""

    service, tag, answer = Throttles, "throttles", ThrottleAnswer
    filters = {"name": Name, "paused": bool}
    lookups = {"paused": lambda paused: Q(max_in_flight=0) if paused else ~Q(max_in_flight=0)}
    told = {"paused": lambda throttle: not throttle.max_in_flight}
    orderings = ("id", "name", "max_in_flight")

    def facts(self, rows: Sequence[models.Throttle]) -> list[dict[str, Any]]:
        """With what they do at this moment."""
        live = {each.throttle.pk: _live(each) for each in throttles.live([row.pk for row in rows])} if rows else {}
        return [self.own_facts(row) | {"live": live[row.pk]} for row in rows]


def _live(live: throttles.Live) -> dict[str, Any]:
    return {name: getattr(live, name) for name in LiveThrottle.model_fields} | {"at_least": sorted(live.at_least)}


router = ThrottlesOfTheApi().router
