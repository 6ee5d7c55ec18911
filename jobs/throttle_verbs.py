"""What a person does with a throttle from a command, a page or a program; and what has to be said about it."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import ProtectedError
from django.db.models.deletion import Collector

from jobs import throttles
from jobs.handlers import registry
from jobs.models import BacklogRecord, Lane, Throttle
from jobs.states import UNFINISHED
from jobs.throttles import SHORTEST_WAIT_SECONDS, Live

SHOWN_NAMES = 5


class NoSuchThrottle(ValueError):
    """No throttle has that name. Its text names those there are."""


class InUse(ValueError):
    """A throttle is not removed. Its text says what keeps it, and what to do."""


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


def remove(asked: Iterable[Throttle]) -> None:
    """Delete these throttles, all or none. Raises: InUse for one that an origin or an unfinished record names.

    Behind locks, so that no record comes under one meanwhile. Who puts records into a lane holds it from the look-up to
    its commit (`throttles.lanes_of`), or holds the throttles while it makes the lane. Here: the throttles in id order,
    which is waited for; then the lanes, which is not, since claims wait for the throttles. What runs is asked after
    that.
    """
    ids = [throttle.pk for throttle in asked]
    with transaction.atomic():
        held = list(Throttle.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
        lanes = Lane.objects.filter(throttle_ids__overlap=ids)
        free = lanes.select_for_update(skip_locked=True).order_by("pk").values_list("pk", flat=True)
        if len(free) < lanes.count():
            names = ", ".join(throttle.name for throttle in held)
            raise InUse(f"{names}: records that name it are put on the backlog at this moment. Try again in a moment.")
        _refuse_in_flight(ids)
        for throttle in held:
            _refuse_named(throttle)
            throttle.delete()


def refuse_in_use(throttle: Throttle) -> None:
    """Look, before a person is asked, whether `remove` would refuse it now. Raises: InUse."""
    _refuse_named(throttle)
    _refuse_in_flight([throttle.pk])


def _refuse_in_flight(ids: list[int]) -> None:
    """Raises: InUse."""
    for live in throttles.live(ids):
        if said := obstacle_to_removing(live):
            raise InUse(f"{said}. Let them end or cancel them first.")


def _refuse_named(throttle: Throttle) -> None:
    """Raises: InUse naming the rows that refer to it."""
    for use_of in registry.uses:
        if used := use_of(throttle):
            raise InUse(f"{used}.")
    try:
        Collector(using=DEFAULT_DB_ALIAS).collect([throttle])
    except ProtectedError as error:
        names = sorted({f"{each._meta.verbose_name} {each}" for each in error.protected_objects})
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        raise InUse(f"{throttle.name}: named by {', '.join(names[:SHOWN_NAMES])}{more}. Take it away there.") from error


def obstacle_to_removing(live: Live) -> str:
    """Which unfinished records name it: they would go on unthrottled. Empty: none."""
    counts = {"run": live.in_flight, "are ready": live.ready, "wait": live.waiting}
    said = ", ".join(f"{count:,} {does}" for does, count in counts.items() if count)
    if said:
        return f"{live.throttle.name}: of the records that name it {said}"
    # what waits is counted only so far
    lanes = Lane.objects.filter(throttle_ids__contains=[live.throttle.pk]).values("pk")
    is_named = BacklogRecord.objects.filter(lane__in=lanes, status__in=UNFINISHED).exists()
    return f"{live.throttle.name}: of the records that name it some are unfinished" if is_named else ""


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
