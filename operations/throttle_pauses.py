"""Pause and resume throttles: a pause sets the cap in flight to 0, and keeps its previous value."""

from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction

from declarations.service import Edit
from jobs.backlog.pausing import checked_end, checked_reason
from jobs.clock import database_clock
from jobs.models import Throttle
from operations.declarations import Throttles

UNKNOWN = "how many of its records ran at once before its pause is not known"


@transaction.atomic
def pause(throttle: Throttle, *, until: datetime | None = None, reason: str = "") -> Edit:
    """Let none of its records begin until it is resumed, by a user or automatically at `until`; running records
    continue.

    Pausing again replaces reason and end, if new ones are given. Raises: ValueError for a reason of more than 200
    characters, an `until` that is over, or one for a throttle whose number before its pause is not known.
    """
    given = {"paused_until": checked_end(until, database_clock()), "paused_why": checked_reason(reason)}
    edit = Throttles().edit(throttle, {"max_in_flight": 0})
    if until and Throttle.objects.filter(pk=throttle.pk, in_flight_before=None).exists():
        raise ValueError(f"{throttle.name}: it was paused before, and {UNKNOWN}, so it cannot resume automatically")
    if given := {name: value for name, value in given.items() if value}:
        Throttle.objects.filter(pk=throttle.pk).update(**given)
    return edit


@transaction.atomic
def resume(throttle: Throttle, most: int | None = None) -> Edit:
    """Let `most` of its records be in flight; None for as many as before the pause. Raises: ValueError if that number
    is not known, such as for one that was created paused, or if it is not paused; ValidationError for a wrong number.
    """
    if most is not None and most < 1:
        raise ValidationError({"max_in_flight": "must be greater than or equal to 1"})
    throttle = Throttle.objects.select_for_update(no_key=True).get(pk=throttle.pk)  # as it is now
    most = throttle.in_flight_before if most is None else most
    if most is None:
        why = UNKNOWN if not throttle.max_in_flight else "it is not paused"
        raise ValueError(f"{throttle.name}: {why}: give the number of its records that may run at once")
    return Throttles().edit(throttle, {"max_in_flight": most})


def resume_those_over(now: datetime | None = None) -> int:
    """Resume the throttles whose pause had an end, once it has come. Returns their number."""
    instant, resumed = now or database_clock(), 0
    over = Throttle.objects.filter(max_in_flight=0, in_flight_before__isnull=False, paused_until__lte=instant)
    for pk in over.values_list("pk", flat=True):
        with transaction.atomic():
            if throttle := over.select_for_update(no_key=True).filter(pk=pk).first():  # it may be paused for longer
                resume(throttle)
                resumed += 1
    return resumed
