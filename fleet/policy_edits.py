"""Edits of policies, and their effects."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from functools import partial
from shlex import quote
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from backups.upkeep import removals
from declarations.service import Service
from jobs import rescheduling, rollouts
from jobs.conf import PROGRAM
from jobs.models import Origin
from schedules.cron_doubts import doubts
from schedules.models import Schedule
from sealing.lookup import problem_with_stored
from sources import planning
from sources.declarations import policies, reach
from sources.domain.excluded_dates import ExcludedDates
from sources.domain.preview import check_period_meets_window
from sources.models import Copy, Format, Policy, Repository
from sources.protection import ledger

SCHEDULE_FIELDS = ("name", "cron", "zone", "enabled", "priority", "retry_policy", "throttle")
"""Fields of a policy that are its schedule's."""

PLANNED_FROM = frozenset({
    "cron", "zone", "window", "excluded_dates", "only_if_it_fits", "enabled", "priority", "throttle", "seeding_limit",
    "repository", "copy_to",
})  # fmt: skip
"""A change of these moves next-backup dates or records on the backlog."""


class Policies(Service[Policy]):
    """A policy and its schedule are one thing: period, zone, priority, throttle and retry policy are its schedule's."""

    model, declaration, named_by = Policy, policies.PolicyDeclaration, "schedule__name"

    def rows(self) -> QuerySet[Any]:
        return Policy.objects.select_related("schedule__throttle", "schedule__retry_policy", "repository")

    def new(self) -> Policy:
        return Policy(schedule=Schedule(kind=planning.KIND, provider="assignments"))

    def holder(self, row: Policy, field: str) -> Any:
        return row.schedule if field in SCHEDULE_FIELDS else row

    def lock(self, row_id: int) -> bool:
        return lock_policy(row_id)

    def problems(self, row: Policy, changed: set[str] | None) -> dict[str, str]:
        """Problems by field: its window never opens for its periods, its repository is going, or what it refers to is
        missing.
        """
        found = _look_for_openings(row)[0]
        if row.repository_id and (changed is None or "repository" in changed):
            found |= self._goes(row.repository)
        if row.copy_to_id and (changed is None or not {"copy_to", "repository", "copy_bandwidth"}.isdisjoint(changed)):
            found |= self._copies(row)
        if row.ping_url and (changed is None or "ping_url" in changed):
            if self.account and not self.account.has_perm(reach.SET_SECRET):
                found["ping_url"] = "is set by accounts that may set where passwords are found"
            elif problem := problem_with_stored(row.ping_url):
                found["ping_url"] = problem
        return found

    def _goes(self, repository: Repository, field: str = "repository") -> dict[str, str]:
        text = removals.obstacle(repository, self.remembered("removals", removals.under_way))
        return {field: f"{repository}: {text}"} if text else {}

    def _copies(self, row: Policy) -> dict[str, str]:
        """Problems with the second repository. Its place need not be compared: no repository is within another one, and
        no two have one identity."""
        if row.copy_to is None or row.copy_to_id == row.repository_id:
            return {"copy_to": "is the repository of its backups: name another one, preferably in another place"}
        if row.copy_to.format != row.repository.format:
            return {
                "copy_to": f"{row.copy_to} is a repository of the format {row.copy_to.format}, and {row.repository} of "
                f"{row.repository.format}: points are copied within one format. Name another one, or give the sources "
                "a second policy with that repository"
            }
        if row.copy_to.format == Format.RESTIC and "," in row.copy_bandwidth:
            return {"copy_bandwidth": "is a timetable, and restic has one rate for a whole run: give one, such as 10M"}
        return self._goes(row.copy_to, "copy_to")

    def write(self, row: Policy, changed: set[str] | None) -> list[str]:
        """Save a policy with its schedule; values that were computed from it are recomputed."""
        if row.pk:
            lock_policy(row.pk)
        _save(row.schedule, SCHEDULE_FIELDS, changed)
        row.schedule = row.schedule  # takes over the id of a new one
        _save(row, [each.name for each in row._meta.concrete_fields if each.name not in ("id", "schedule")], changed)
        if changed is not None and not PLANNED_FROM.isdisjoint(changed):
            planning.replan(row)
        else:
            planning.limit_seeding(row)
        if changed is None or "enabled" in changed:
            ledger.note_enabled(row)
            Policy.objects.filter(pk=row.pk).update(paused_until=None, paused_why="")
        if changed is not None and "retry_policy" in changed:
            transaction.on_commit(partial(rescheduling.follow, row.schedule))
        left = _left_copies(row) if changed and "copy_to" in changed else []
        unsure = doubts(row.schedule.cron) if changed is None or "cron" in changed else []
        return [*_look_for_openings(row)[1], *unsure, *left, *map(str, rollouts.progress("policy", [row.pk]).values())]

    def uses(self, row: Policy) -> list[str]:
        count = row.assignments.count()
        many = f"{count:,} sources are under it: delete their assignments first"
        under = "1 source is under it: delete its assignment first" if count == 1 else many
        return [*([under] if count else []), *super().uses(row)]

    def delete(self, row: Policy) -> None:
        """Delete the policy, and its schedule with it."""
        schedule = row.schedule_id
        row.delete()
        Schedule.objects.filter(pk=schedule).delete()

    def _taken(self, names: Collection[str]) -> Collection[str]:
        """The names that are taken, also by schedules that are not policies."""
        return Origin.objects.filter(name__in=names).values_list("name", flat=True)


def _left_copies(policy: Policy) -> list[str]:
    """Sentences about the copies in earlier second repositories of a policy, and how to delete them."""
    rows = Copy.objects.filter(assignment__policy=policy).exclude(points=[]).exclude(repository=policy.copy_to_id)
    names = rows.order_by("repository__name").values_list("repository__name", flat=True).distinct()
    return [
        f"the copies in {name} stay there, and can be restored: `{PROGRAM} repositories remove {quote(name)}` "
        "deletes them with their files, once no policy names it"
        for name in names
    ]


def lock_policy(policy_id: int) -> bool:
    """Lock a policy and then its schedule, until the transaction ends: in this order wherever both are edited, so that
    of two edits of one policy one waits, once, for the other. Returns True if the policy exists.
    """
    locked = Policy.objects.filter(pk=policy_id).select_for_update(no_key=True, of=("self",)).order_by("pk")
    policy = locked.only("schedule_id").first()
    if policy is None:
        return False
    Schedule.objects.select_for_update(no_key=True, of=("self",)).only("pk").get(pk=policy.schedule_id)
    return True


def _save(row: Model, fields: Collection[str], changed: Collection[str] | None) -> None:
    """Save the fields of these that an edit changed. The others are read again: they may have been edited since they
    were first read, and recomputed values depend on them. Any other field is left as it is, such as a schedule's
    watermark, which is the emitter's.
    """
    if not row.pk:
        row.save()
        return
    edited = [name for name in fields if changed is None or name in changed]
    if others := [name for name in fields if name not in edited]:
        row.refresh_from_db(fields=others)
    if edited:
        row.save(update_fields=edited)


def _look_for_openings(policy: Policy, now: datetime | None = None) -> tuple[dict[str, str], list[str]]:
    """Errors of its window and excluded dates, by field, when they leave no opening at all; and warnings about coming
    periods without one.
    """
    window, now = policy.weekly_window, now or timezone.now()
    try:
        return {}, check_period_meets_window(policy.schedule.period, window, now)
    except ValueError as error:
        if not window.excluded:
            return {"window": str(error)}, []
    try:
        replace(window, excluded=ExcludedDates()).current_or_next(now)
    except ValueError as error:
        return {"window": str(error)}, []
    return {"excluded_dates": "leave no opening within two years; remove some of them"}, []
