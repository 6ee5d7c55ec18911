"""Instants of a Monday for which plans are made, spans of time, a window of nights; the tick; edits and check-ins."""

from datetime import datetime, timedelta

from django.db import transaction

from jobs.tick import tick as jobs_tick
from sources import planning
from sources.models import Policy, Source
from tests.sources.factories import MONDAY, SCHEDULE_FIELDS

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
NINE = MONDAY + 9 * HOUR
NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


@transaction.atomic
def announce(source: Source, now: datetime, **facts: object) -> int:
    """Check in: the facts are written, then the records are moved."""
    Source.objects.filter(pk=source.pk).update(checked_in_at=now, **facts)
    source.refresh_from_db()
    return planning.check_in(source, now)


def edited(policy: Policy, now: datetime = NINE, **fields: object) -> None:
    """Edit it and its schedule, and plan it anew."""
    for name, value in fields.items():
        setattr(policy.schedule if name in SCHEDULE_FIELDS else policy, name, value)
    policy.schedule.save()
    policy.save()
    planning.replan(policy, now)


def tick(now: datetime) -> None:
    jobs_tick(now, rescue=False)
