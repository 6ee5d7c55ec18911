"""Deleting throttles behind locks, and what a person should know about one."""

from collections.abc import Iterable

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import ProtectedError
from django.db.models.deletion import Collector

from jobs import throttles
from jobs.handlers import registry
from jobs.models import BacklogRecord, Lane, Throttle
from jobs.states import UNFINISHED
from jobs.throttles import SHORTEST_WAIT_SECONDS, Live

SHOWN_NAMES = 5


class InUse(ValueError):
    """A row is not deleted. Its text says what keeps it, and what to do."""


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
