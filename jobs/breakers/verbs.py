"""What people do about breakers (`jobs/breakers/`): close, probe, rename and delete what they guard."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from jobs import breakers
from jobs.breakers.statements import FORGET, WHATEVER_WAITS
from jobs.clock import database_clock
from jobs.formatting import storable
from jobs.models import Breaker
from jobs.outcomes import Guarded
from jobs.prepared import execute


@transaction.atomic
def close(breaker_ids: Sequence[int], *, now: datetime | None = None, by: str = "a person") -> int:
    """Close open breakers: all that waits for them goes through at the next tick. Returns how many were open."""
    instant = now or database_clock()
    found = _locked(breaker_ids)
    for breaker in found:
        breakers.shut(breaker, f"{by} closed it", instant)
        breaker.save()
    return len(found)


@transaction.atomic
def probe_now(breaker_ids: Sequence[int], *, now: datetime | None = None, by: str = "a person") -> int:
    """Let the next trial of open breakers through at the next tick. Returns how many are open."""
    instant = now or database_clock()
    found = _locked(breaker_ids)
    for breaker in found:
        breaker.probe_at = instant
        breaker.save()
        breakers.write("probe asked for", breaker, f"{by} asked for a trial for {breaker} now", instant)
    return len(found)


def _locked(breaker_ids: Sequence[int]) -> list[Breaker]:
    opened = Breaker.objects.filter(pk__in=breaker_ids, opened_at__isnull=False)
    return list(opened.select_for_update(no_key=True).order_by("pk"))


def rename(guarded: Guarded) -> None:
    """What is guarded has another name."""
    title = storable(guarded.title)[: breakers.LONGEST_NAME]
    Breaker.objects.filter(key=breakers.key_of(guarded)).update(title=title)


@transaction.atomic
def forget(guarded: Guarded, *, now: datetime | None = None) -> None:
    """What is guarded is there no more: its breaker goes, and what waits for that looks by itself what to do."""
    instant = now or database_clock()
    for breaker in Breaker.objects.filter(key=breakers.key_of(guarded)).select_for_update():
        while breakers.let_through(WHATEVER_WAITS, breaker, breakers.BATCH, instant):
            pass
        breaker.delete()


def prune(before: datetime) -> int:
    """Delete the breakers whose last failure was before that instant and for which nothing waits. Returns how many."""
    return execute(FORGET, {"before": before, "limit": breakers.BATCH}).rowcount
