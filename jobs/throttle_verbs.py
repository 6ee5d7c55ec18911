"""What a person does with a throttle from a command, a page or a program; and what has to be said about it."""

from math import isfinite
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from jobs.models import Throttle
from jobs.throttles import Live
from jobs.worker.tokens import SHORTEST_WAIT_SECONDS


class NoSuchThrottle(ValueError):
    """No throttle has that name. Its text names those there are."""


def find(name: str) -> Throttle:
    """The throttle of that name. Raises: NoSuchThrottle."""
    found = Throttle.objects.filter(name=name).first() if "\0" not in name else None
    if found is None:
        names = [repr(known) for known in Throttle.objects.order_by("name").values_list("name", flat=True)[:20]]
        there = f"there are {', '.join(names)}" if names else "there are none yet"
        raise NoSuchThrottle(f"there is no throttle {name!r}; {there}")
    return found


def add(name: str, **values: Any) -> Throttle:
    """Make one. `values` as those of `change`. Raises: ValidationError, and then nothing is made."""
    throttle = Throttle(name=name, **values)
    if throttle.rate is not None and not isfinite(throttle.rate):
        raise ValidationError({"rate": f"A number, not {throttle.rate}."})
    throttle.full_clean()
    throttle.save()
    return throttle


def change(name: str, **values: Any) -> Throttle:
    """Give it new values: `max_in_flight`, `rate` (None: none), `burst` (None: a second of the rate).

    It takes effect at the next claim; what runs goes on. Raises: NoSuchThrottle; ValidationError for values that its
    fields refuse, and then nothing is changed.
    """
    with transaction.atomic():
        find(name)
        throttle = Throttle.objects.select_for_update().get(name=name)
        for field, value in values.items():
            setattr(throttle, field, value)
        if throttle.rate is not None and not isfinite(throttle.rate):  # Django's validators let it pass
            raise ValidationError({"rate": f"A number, not {throttle.rate}."})
        throttle.full_clean(exclude={"name"})
        throttle.save(update_fields=list(values))
    return throttle


def pause(name: str) -> Throttle:
    """Let nothing more of it begin. Raises: NoSuchThrottle."""
    return change(name, max_in_flight=0)


def resume(name: str, max_in_flight: int) -> Throttle:
    """Let so many run again. Raises: NoSuchThrottle; ValidationError below 1."""
    if max_in_flight < 1:
        raise ValidationError({"max_in_flight": "At least 1: a throttle of 0 is paused."})
    return change(name, max_in_flight=max_in_flight)


def warnings(throttle: Throttle, live: Live | None = None) -> list[str]:
    """Sentences about what may not be meant: it is paused, or its burst keeps its rate from being reached."""
    said = []
    if throttle.max_in_flight == 0:
        held = f", {live.ready:,} are ready" if live and live.ready else ""
        said.append(f"0 means paused: none of its records begins{held}; those that run go on")
    reached = throttle.bucket_size / SHORTEST_WAIT_SECONDS
    if throttle.rate and throttle.rate > reached:
        said.append(
            f"with a burst of {throttle.burst} a worker begins {reached:g} a second at most, not {throttle.rate:g}: "
            f"it comes {1 / SHORTEST_WAIT_SECONDS:g} times a second"
        )
    return said
