"""Instants of a Monday for which plans are made, spans of time, a window of nights; and sources that check in."""

from datetime import datetime, timedelta

from django.db import transaction

from sources import planning
from sources.models import Source
from tests.sources.factories import MONDAY

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
NINE = MONDAY + 9 * HOUR
NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


@transaction.atomic
def announce(source: Source, now: datetime, **facts: object) -> int:
    """Check in: the facts are written, then the records are moved."""
    Source.objects.filter(pk=source.pk).update(checked_in_at=now, **facts)
    source.refresh_from_db()
    return planning.check_in(source, now)
