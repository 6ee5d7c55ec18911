"""Pauses and resumes queues, and holds everything: claims read these rows, so a commit here takes effect everywhere.
From the commit of a hold on, no claim of any queue takes anything. Running records are asked to stop by a notice, or by
the next heartbeat of their worker, and are given back without a failure; one that only waits for the answer to a sent
request may get it. Paused queues are not touched.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from jobs import conf, decisions
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Hold, PastHold, PausedQueue
from jobs.wakeups import EVERY_QUEUE, notify, notify_at_once, notify_held

MAX_REASON = 200


@transaction.atomic
def pause_queue(name: str, reason: str = "", *, until: datetime | None = None, now: datetime | None = None) -> bool:
    """Let no record be claimed from queue `name` until it is resumed, by a user or automatically at `until`; running
    records continue.

    Pausing again keeps the first instant, and replaces reason and end if new ones are given. Returns whether that
    changed anything. Raises: ValueError for an unknown queue, a reason of more than 200 characters, or an `until` in
    the past.
    """
    check_known(name)
    instant = now or database_clock()
    given = {"reason": checked_reason(reason), "paused_until": checked_end(until, instant)}
    facts = {"paused_at": instant, **given}
    paused, created = PausedQueue.objects.select_for_update().get_or_create(name=name, defaults=facts)
    differs = {name: value for name, value in given.items() if value and value != getattr(paused, name)}
    if differs:
        PausedQueue.objects.filter(pk=paused.pk).update(**differs)
    return created or bool(differs)


@transaction.atomic
def resume_queue(name: str) -> bool:
    """Let queue `name` be claimed from again, and wake its workers. Returns whether it was paused.

    Raises: ValueError for an unknown queue.
    """
    check_known(name)
    return _resume(name, PausedQueue.objects.all())


def resume_those_over(now: datetime | None = None) -> int:
    """Resume the queues whose pause had an end, once it has come. Returns how many."""
    over = PausedQueue.objects.filter(paused_until__lte=now or database_clock())
    return sum(_resume(name, over) for name in over.values_list("name", flat=True))


@transaction.atomic
def _resume(name: str, among: QuerySet[PausedQueue]) -> bool:
    """Returns False if the queue is not, or no longer, `among` these."""
    deleted, _ = among.filter(name=name).delete()
    if deleted:
        notify(name)
    return bool(deleted)


def held() -> Hold | None:
    """The hold that is in force, with `reason`, `since` (aware) and `by`; None if there is none."""
    return Hold.objects.first()


@transaction.atomic
def hold(reason: str, *, by: str, until: datetime | None = None, now: datetime | None = None) -> bool:
    """Let no record be claimed from any queue until `release`, by a user or automatically at `until`, and stop running
    ones. `by`: who holds, for users.

    Holding again keeps the first instant and name, replaces the reason, and the end if a new one is given. Returns
    whether that changed anything. Raises: ValueError for a reason that is empty or of more than 200 characters, or an
    `until` in the past.
    """
    if not (reason := checked_reason(reason)):
        raise ValueError("a reason is missing: give one for the next operator")
    since = now or database_clock()
    facts = {"since": since, "reason": reason, "by": by[:200], "until": checked_end(until, since)}
    found, created = Hold.objects.select_for_update().get_or_create(pk=1, defaults=facts)
    if not created and found.reason == reason and until in (None, found.until):
        return False
    if not created:
        found.reason, found.until = reason, until or found.until
        found.save(update_fields=["reason", "until"])
    end = f", until {found.until:%Y-%m-%d %H:%M} UTC" if found.until else ""
    decisions.log("held", f"{by} held everything: {reason}{end}", now=now)
    notify_held()
    return True


@transaction.atomic
def release(*, by: str, now: datetime | None = None) -> bool:
    """End the hold, and wake all workers. Queues that are paused stay so. Returns whether there was a hold."""
    found = Hold.objects.select_for_update().first()
    if found:
        PastHold.objects.create(since=found.since, until=now or database_clock())
        found.delete()
        decisions.log("released", f"{by} ended the hold: work continues", now=now)
        notify_at_once(EVERY_QUEUE)
    return found is not None


@transaction.atomic
def release_if_over(now: datetime | None = None) -> int:
    """Release a hold that had an end, once it has come. Returns how many."""
    instant = now or database_clock()
    over = Hold.objects.select_for_update().filter(until__lte=instant).exists()
    return int(over and release(by="the end of the hold", now=now))


def check_known(name: str) -> None:
    """Raises: ValueError, with the known names, for a queue that is neither in the settings nor in use nor paused."""
    rules = conf.queue_rules()
    is_text = "\0" not in name
    if name in rules or (is_text and PausedQueue.objects.filter(name=name).exists()):
        return
    if not (is_text and BacklogRecord.objects.unfinished().filter(queue=name).exists()):
        raise ValueError(f"no queue {name!r}; there are {', '.join(rules)}")


def checked_end(until: datetime | None, now: datetime) -> datetime | None:
    """The instant at which a pause ends automatically; None if a user ends it. Raises: ValueError for an instant in the
    past.
    """
    if until is not None and until <= now:
        raise ValueError(f"until: must be in the future; {until:%Y-%m-%d %H:%M} UTC is in the past")
    return until


def checked_reason(reason: str) -> str:
    """The reason without spaces around it. Raises: ValueError for one that cannot be stored."""
    if len(reason) > MAX_REASON:
        raise ValueError(f"reason: must have at most {MAX_REASON} characters")
    if "\0" in reason:
        raise ValueError("a reason cannot contain the character NUL")
    return reason.strip()
