"""Pauses of policies, and the end of pauses that have one: of sources and policies."""

from datetime import datetime

from django.db import transaction

from fleet.policy_edits import Policies, lock_policy
from jobs.backlog.pausing import checked_end, checked_reason
from jobs.clock import database_clock
from sources import planning
from sources.models import Policy, Source

BY_ITSELF = "the end of the pause"
MEANS = (
    "No backup begins, and waiting records are taken off the backlog; running ones continue. It resumes at the "
    "given instant, or, without one, when a user resumes it."
)


@transaction.atomic
def pause_policy(
    policy: Policy, *, reason: str = "", until: datetime | None = None, by: str, account: object = None
) -> bool:
    """Let none of its backups begin until it is enabled again, by a user or automatically at `until`. Its records are
    taken off the backlog.

    Pausing again replaces reason and end, if new ones are given. Returns True if that changed anything. Raises:
    ValueError for a reason of more than 200 characters, or an `until` in the past.
    """
    until, reason = checked_end(until, database_clock()), checked_reason(reason)
    changed = bool(Policies(account, by).edit(policy, {"enabled": False}).changed)
    given = {name: value for name, value in (("paused_until", until), ("paused_why", reason)) if value}
    if given:
        changed |= bool(Policy.objects.filter(pk=policy.pk).exclude(**given).update(**given))
    return changed


def resume_policy(policy: Policy, *, by: str, account: object = None) -> bool:
    """Enable it. Returns True if it was disabled before."""
    return bool(Policies(account, by).edit(policy, {"enabled": True}).changed)


def resume_those_over(now: datetime | None = None) -> int:
    """Resume the sources and policies whose pause had an end, once it has come. Returns their number."""
    instant = now or database_clock()
    sources = list(Source.objects.filter(paused_at__isnull=False, paused_until__lte=instant))
    resumed = planning.resume(sources, instant, by=BY_ITSELF, only_over=True) if sources else 0
    over = Policy.objects.filter(schedule__enabled=False, paused_until__lte=instant).select_related("schedule")
    for pk in over.values_list("pk", flat=True):
        with transaction.atomic():
            if lock_policy(pk) and (policy := over.filter(pk=pk).first()):  # it may be paused for longer by now
                resumed += resume_policy(policy, by=BY_ITSELF)
    return resumed
