"""How repositories, policies and sources are edited, and what follows from an edit."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from declarations.service import Service
from jobs.models import Origin
from schedules import rescheduling, rollouts
from schedules.models import Schedule
from sources import declarations, planning
from sources.backups import overlaps, reach
from sources.domain.excluded_dates import ExcludedDates
from sources.domain.preview import check_period_meets_window
from sources.models import Backup, Policy, Repository, Source
from sources.repository_edits import backups_of, first_messages
from sources.secrets_by_reference import problem_with_stored

SCHEDULE_FIELDS = ("name", "cron", "zone", "enabled", "priority", "retry_policy", "throttle")
"""Fields of a policy that are its schedule's."""

PLANNED_FROM = frozenset({
    "cron", "zone", "window", "excluded_dates", "only_if_it_fits", "enabled", "priority", "throttle", "seeding_limit",
    "repository",
})  # fmt: skip
"""A change of these moves next-backup dates or records on the backlog."""


class Policies(Service[Policy]):
    """A policy and its schedule are one thing: period, zone, priority, throttle and retry policy are its schedule's."""

    model, declaration, named_by = Policy, declarations.Policy, "schedule__name"

    def rows(self) -> QuerySet[Any]:
        return Policy.objects.select_related("schedule__throttle", "schedule__retry_policy", "repository")

    def new(self) -> Policy:
        return Policy(schedule=Schedule(kind=planning.KIND, provider="assignments"))

    def holder(self, row: Policy, field: str) -> Any:
        return row.schedule if field in SCHEDULE_FIELDS else row

    def lock(self, row_id: int) -> bool:
        return lock_policy(row_id)

    def problems(self, row: Policy, changed: set[str] | None) -> dict[str, str]:
        """Whether its window ever opens for its periods."""
        return _look_for_openings(row)[0]

    def write(self, row: Policy, changed: set[str] | None) -> list[str]:
        """Save a policy with its schedule; what was computed from it is computed anew."""
        if row.pk:
            lock_policy(row.pk)
        _save(row.schedule, SCHEDULE_FIELDS, changed)
        row.schedule = row.schedule  # takes over the id of a new one
        _save(row, [each.name for each in row._meta.concrete_fields if each.name not in ("id", "schedule")], changed)
        if changed is not None and not PLANNED_FROM.isdisjoint(changed):
            planning.replan(row)
        else:
            planning.limit_seeding(row)
        if changed is not None and "retry_policy" in changed:
            transaction.on_commit(partial(rescheduling.follow, row.schedule))
        return [*_look_for_openings(row)[1], *map(str, rollouts.progress("policy", [row.pk]).values())]

    def uses(self, row: Policy) -> list[str]:
        count = row.assignments.count()
        return [f"{count:,} source{'s are' if count != 1 else ' is'} under it"] if count else []

    def delete(self, row: Policy) -> None:
        """Its schedule goes with it."""
        schedule = row.schedule_id
        row.delete()
        Schedule.objects.filter(pk=schedule).delete()

    def _taken(self, names: Collection[str]) -> Collection[str]:
        """Also by schedules that are no policies."""
        return Origin.objects.filter(name__in=names).values_list("name", flat=True)


class Sources(Service[Source]):
    model, declaration = Source, declarations.Source

    def problems(self, row: Source, changed: set[str] | None) -> dict[str, str]:
        """A secret that the account may not have sent elsewhere is cleared."""
        self.notices: list[str] = []
        try:
            overlaps.check_source(row, self.remembered("repositories", lambda: list(Repository.objects.all())))
            if self.account:
                self.notices = reach.check_source(self.account, row)
        except ValidationError as error:
            return first_messages(error)
        if self.notices and changed is not None:
            changed.add("secret")
        if changed is None or "secret" in changed:
            problem = self.remembered(("secret", row.secret), lambda: problem_with_stored(row.secret))
            return {"secret": problem} if problem else {}
        return {}

    def write(self, row: Source, changed: set[str] | None) -> list[str]:
        super().write(row, changed)
        if changed is not None:
            emit_after_commit(row.assignments.values_list("pk", flat=True))
        return self.notices

    def write_all(self, edits: Sequence[tuple[Source, set[str] | None]]) -> list[str]:
        """In as many statements for a hundred thousand as for some thousands; what is due is for the caller to emit."""
        Source.objects.bulk_create([row for row, changed in edits if changed is None], batch_size=1000)
        fields = set[str]().union(*(changed for _, changed in edits if changed))
        if fields:
            Source.objects.bulk_update([row for row, changed in edits if changed], sorted(fields), batch_size=500)
        return []

    def uses(self, row: Source) -> list[str]:
        return backups_of(Backup.objects.filter(assignment__source=row))


def lock_policy(policy_id: int) -> bool:
    """Lock a policy and then its schedule, until the transaction ends: in this order wherever both are edited, so that
    of two edits of one policy one waits, once, for the other. Returns whether there is one."""
    locked = Policy.objects.filter(pk=policy_id).select_for_update(no_key=True, of=("self",)).order_by("pk")
    policy = locked.only("schedule_id").first()
    if policy is None:
        return False
    Schedule.objects.select_for_update(no_key=True, of=("self",)).only("pk").get(pk=policy.schedule_id)
    return True


def _save(row: Model, fields: Collection[str], changed: Collection[str] | None) -> None:
    """Save what an edit changed of these fields. The others are read again: they may have been edited since they were
    first read, and what is computed anew goes by them. A field that is none of these is left as it is, as a schedule's
    watermark, which is the emitter's."""
    if not row.pk:
        row.save()
        return
    edited = [name for name in fields if changed is None or name in changed]
    if others := [name for name in fields if name not in edited]:
        row.refresh_from_db(fields=others)
    if edited:
        row.save(update_fields=edited)


def _look_for_openings(policy: Policy, now: datetime | None = None) -> tuple[dict[str, str], list[str]]:
    """What is wrong with its window and excluded dates, by field, when they leave no opening at all; and warnings about
    coming periods without one."""
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
    return {"excluded_dates": "leave no opening within two years; take some of them away"}, []


def policies_of(source: Source) -> list[str]:
    """The names of the policies that it is under."""
    return sorted(assignment.policy.schedule.name for assignment in source.assignments.all())


def emit_after_commit(assignment_ids: Iterable[int]) -> None:
    """Put what is due of these assignments on the backlog once they are committed: a new one is due at once."""
    ids = list(assignment_ids)
    transaction.on_commit(lambda: planning.emit_due(None, ids))
