"""Operations of users on breakers (`jobs/breakers/`): close, probe, rename and delete."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from jobs import breakers
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import BreakerTarget
from jobs.states import Status, WaitingFor


@transaction.atomic
def close(breaker_ids: Sequence[int], *, now: datetime | None = None, by: str = "a user") -> int:
    """Close open breakers: all their waiting records go through at the next tick. Returns the number that were open."""
    instant = now or database_clock()
    found = _locked(breaker_ids)
    for breaker in found:
        breakers.shut(breaker, f"{by} closed it", instant)
        breaker.save()
    return len(found)


@transaction.atomic
def probe_now(breaker_ids: Sequence[int], *, now: datetime | None = None, by: str = "a user") -> int:
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


def try_first(records: Sequence[BacklogRecord]) -> None:
    """Make the first of these, which a user wants tried, the trial of the open breaker that it waits for.

    Any other record would be refused by its handler and wait again. A trial that is under way remains the trial.
    """
    for breaker in _locked([record.breaker_id for record in records if record.breaker_id is not None]):
        under_way = BacklogRecord.objects.filter(pk=breaker.trial_id or 0, status__in=[Status.READY, Status.RUNNING])
        if not under_way.exists():
            breaker.trial_id = min(record.pk for record in records if record.breaker_id == breaker.pk)
            breaker.save(update_fields=["trial_id"])


def rename(guarded: BreakerTarget) -> None:
    """Give the breaker the new name of its target."""
    Breaker.objects.filter(key=breakers.key_of(guarded)).update(title=breakers.title_of(guarded))


@transaction.atomic
def forget(guarded: BreakerTarget, *, now: datetime | None = None) -> None:
    """Delete the breaker of something that no longer exists; the records that wait for it decide for themselves what to
    do. If another transaction holds some of them locked, it is closed: the ticks let these through, and it is pruned.
    """
    instant = now or database_clock()
    for breaker in Breaker.objects.filter(key=breakers.key_of(guarded)).select_for_update():
        while breakers.let_through(breakers.WHATEVER_WAITS, breaker, breakers.BATCH, instant):
            pass
        if breakers.held_by(breaker):
            breakers.shut(breaker, "its target was deleted", instant)
            breaker.save()
        else:
            breaker.delete()


@transaction.atomic
def prune(before: datetime) -> int:
    """Delete the breakers whose last failure was before that instant and for which nothing waits. Returns their number.

    The target may be gone for good, such as the host of an event that named a URL.
    """
    waiting = BacklogRecord.objects.waiting().filter(waiting_for=WaitingFor.BREAKER, breaker=OuterRef("pk"))
    old = Breaker.objects.filter(~Exists(waiting), last_failure_at__lt=before).order_by("pk")
    free = old.select_for_update(skip_locked=True)[: breakers.BATCH]  # a settle may hold one
    return Breaker.objects.filter(pk__in=[each.pk for each in free]).delete()[0]
