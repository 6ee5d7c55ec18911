"""Deletion of old rows of the API. It imports nothing of the API: workers do this, too."""

from datetime import datetime, timedelta

from api import tokens
from api.models import IdempotencyKey
from jobs.clock import database_clock
from operations.models import RateCount

KEYS_KEPT_FOR = timedelta(hours=24)

BATCH = 10_000
"""Keys deleted in one go."""


def prune(now: datetime | None = None) -> int:
    """Delete the idempotency keys whose day is over, the tokens that ended long ago, and counts whose window is over.
    Returns how many.

    For `registry.add_periodic`.
    """
    instant = now or database_clock()
    old = IdempotencyKey.objects.filter(created_at__lte=instant - KEYS_KEPT_FOR).order_by("created_at")
    keys, _ = IdempotencyKey.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:BATCH])).delete()
    over = RateCount.objects.filter(ends_at__lte=instant).order_by("ends_at")
    counts, _ = RateCount.objects.filter(pk__in=list(over.values_list("pk", flat=True)[:BATCH])).delete()
    return keys + counts + tokens.prune(instant)
