"""Holding everything: one row, which claims and heartbeats look at, so a commit here is heard everywhere.

From the commit on no claim takes anything, of whatever queue. What runs is asked to stop by a notice, or by the next
heartbeat of its worker, and is given back without a failure; what only waits for the answer to a request that was
sent may have it. Queues that are paused are not touched.
"""

from datetime import datetime

from django.db import transaction

from jobs import decisions
from jobs.backlog.pausing import checked_reason
from jobs.clock import database_clock
from jobs.models import Hold, PastHold
from jobs.wakeups import EVERY_QUEUE, notify_at_once, notify_held


def held() -> Hold | None:
    """The hold that is in force, with `reason`, `since` (aware) and `by`; None: work goes on."""
    return Hold.objects.first()


@transaction.atomic
def hold(reason: str, *, by: str, now: datetime | None = None) -> bool:
    """Let nothing be claimed from any queue until `release`, and stop what runs. `by`: who does it, for people.

    Holding again keeps the first instant and person, and replaces the reason. Returns whether that changed anything.
    Raises: ValueError for a reason that is empty or of more than 200 characters.
    """
    if not (reason := checked_reason(reason)):
        raise ValueError("say why, for those who look next: a reason is missing")
    facts = {"since": now or database_clock(), "reason": reason, "by": by[:200]}
    found, created = Hold.objects.select_for_update().get_or_create(pk=1, defaults=facts)
    if not created and found.reason == reason:
        return False
    if not created:
        found.reason = reason
        found.save(update_fields=["reason"])
    decisions.doing("held", f"{by} held everything: {reason}", now=now)
    notify_held()
    return True


@transaction.atomic
def release(*, by: str, now: datetime | None = None) -> bool:
    """Let work go on, and wake all workers. Queues that are paused stay so. Returns whether there was a hold."""
    found = Hold.objects.select_for_update().first()
    if found:
        PastHold.objects.create(since=found.since, until=now or database_clock())
        found.delete()
        decisions.doing("released", f"{by} ended the hold: work goes on", now=now)
        notify_at_once(EVERY_QUEUE)
    return found is not None
