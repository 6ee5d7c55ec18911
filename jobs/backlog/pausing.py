"""Pausing and resuming queues. The claim looks at the rows, so a commit here is heard everywhere."""

from datetime import datetime

from django.db import transaction

from jobs import conf
from jobs.clock import database_clock
from jobs.models import BacklogRecord, PausedQueue
from jobs.wakeups import notify

MAX_REASON = 200


@transaction.atomic
def pause_queue(name: str, reason: str = "", *, now: datetime | None = None) -> bool:
    """Let nothing be claimed from queue `name` until it is resumed; what runs goes on.

    Pausing again keeps the first instant and replaces the reason, if a new one is given. Returns whether that changed
    anything. Raises: ValueError for an unknown queue, or a reason of more than 200 characters.
    """
    check_known(name)
    reason = checked_reason(reason)
    facts = {"paused_at": now or database_clock(), "reason": reason}
    paused, created = PausedQueue.objects.select_for_update().get_or_create(name=name, defaults=facts)
    if created or not reason or paused.reason == reason:
        return created
    paused.reason = reason
    paused.save(update_fields=["reason"])
    return True


@transaction.atomic
def resume_queue(name: str, *, now: datetime | None = None) -> bool:
    """Let queue `name` be claimed from again, and wake its workers. Returns whether it was paused.

    Raises: ValueError for an unknown queue.
    """
    check_known(name)
    deleted, _ = PausedQueue.objects.filter(name=name).delete()
    if deleted:
        notify(name)
    return bool(deleted)


def check_known(name: str) -> None:
    """Raises: ValueError, with the known names, for a queue that is neither in the settings nor in use nor paused."""
    rules = conf.queue_rules()
    is_text = "\0" not in name
    if name in rules or (is_text and PausedQueue.objects.filter(name=name).exists()):
        return
    if not (is_text and BacklogRecord.objects.unfinished().filter(queue=name).exists()):
        raise ValueError(f"no queue {name!r}; there are {', '.join(rules)}")


def checked_reason(reason: str) -> str:
    """Without spaces around it. Raises: ValueError for one that cannot be kept."""
    if len(reason) > MAX_REASON:
        raise ValueError(f"a reason has at most {MAX_REASON} characters; this one has {len(reason)}")
    if "\0" in reason:
        raise ValueError("a reason cannot contain the character NUL")
    return reason.strip()
