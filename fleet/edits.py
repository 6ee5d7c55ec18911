"""Edits of repositories, policies and sources, and their effects."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from shlex import quote
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from backups import trying_again
from backups.upkeep import removals
from declarations.service import Service
from fleet import duplicates
from fleet.repository_edits import REMOVES, first_messages, points_of
from jobs import rescheduling, rollouts
from jobs.conf import PROGRAM
from jobs.models import Origin
from schedules.cron_doubts import doubts
from schedules.models import Schedule
from sealing.lookup import problem_with_stored
from sources import planning
from sources.declarations import overlaps, policies, reach, resources
from sources.domain.excluded_dates import ExcludedDates
from sources.domain.preview import check_period_meets_window
from sources.models import Backup, Copy, Format, Policy, Repository, Source
from sources.planning import retirement
from sources.protection import ledger

SCHEDULE_FIELDS = ("name", "cron", "zone", "enabled", "priority", "retry_policy", "throttle")
"""Fields of a policy that are its schedule's."""

PLANNED_FROM = frozenset({
    "cron", "zone", "window", "excluded_dates", "only_if_it_fits", "enabled", "priority", "throttle", "seeding_limit",
    "repository", "copy_to",
})  # fmt: skip
"""A change of these moves next-backup dates or records on the backlog."""
MOST_ALIKE = 20
"""Sources of a fleet file that are named as the same place as others."""


class Policies(Service[Policy]):
    """A policy and its schedule are one thing: period, zone, priority, throttle and retry policy are its schedule's."""

    model, declaration, named_by = Policy, policies.Policy, "schedule__name"

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
            return {"copy_to": "is the repository of its backups: name another one, best in another place"}
        if row.copy_to.format != row.repository.format:
            return {
                "copy_to": f"{row.copy_to} is a repository of the format {row.copy_to.format}, and {row.repository} of "
                f"{row.repository.format}: points are copied within one format. Name another one, or give the sources "
                "a second policy with that repository"
            }
        if row.copy_to.format == Format.RESTIC and "," in row.copy_bandwidth:
            return {"copy_bandwidth": "is a timetable, and restic has one rate for a whole run: give one, as 10M"}
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


class Sources(Service[Source]):
    model, declaration = Source, resources.Source
    looks_again = True
    """True if saving a source without a change records the place that its path leads to now."""

    def problems(self, row: Source, changed: set[str] | None) -> dict[str, str]:
        """Problems by field; a secret that the account may not have sent elsewhere is cleared."""
        self.notices: list[str] = []
        try:
            if self.account:
                reach.check_answers(row)
            self._look_where_it_leads(row, changed)
            places = self.remembered("places", overlaps.OurPlaces.now)
            overlaps.check_source(row, self.remembered("repositories", lambda: list(Repository.objects.all())), places)
            if self.account:
                self.notices = reach.check_source(self.account, row)
        except ValidationError as error:
            return first_messages(error)
        if self.notices and changed is not None:
            changed |= {"secret", "secrets"}
        references = [("secret", row.secret), *(("secrets", each) for each in row.secrets.values())]
        return {
            field: problem
            for field, reference in references
            if (changed is None or field in changed)
            and (problem := self.remembered(("secret", reference), partial(problem_with_stored, reference)))
        }

    def _look_where_it_leads(self, row: Source, changed: set[str] | None) -> None:
        """Record the place that its path leads to. Other edits leave it as it is: others may have
        changed links since.
        """
        is_again = changed is not None and not changed and self.looks_again and row.real_path
        if changed is None or not changed.isdisjoint({"kind", "path"}) or is_again:
            before, row.real_path = row.real_path, reach.place_of(self.account, row)
            if changed is not None and row.real_path != before:
                changed.add("path")

    def write(self, row: Source, changed: set[str] | None) -> list[str]:
        self._retire([(row, changed)])
        super().write(row, changed and _columns(changed))
        if changed is not None:
            emit_after_commit(row.assignments.values_list("pk", flat=True))
        if changed and not changed.isdisjoint(trying_again.SECRETS):
            ids = list(row.assignments.values_list("pk", flat=True))
            transaction.on_commit(partial(trying_again.of_assignments, ids))
        return [*self.notices, *duplicates.alike(_placed([(row, changed)])).values()]

    def write_all(self, edits: Sequence[tuple[Source, set[str] | None]]) -> list[str]:
        """Write many sources, in about as many statements for a hundred thousand as for some thousands; the caller
        emits the assignments that are due.
        """
        Source.objects.bulk_create([row for row, changed in edits if changed is None], batch_size=1000)
        self._retire(edits)
        fields = _columns(set[str]().union(*(changed for _, changed in edits if changed)))
        if fields:
            Source.objects.bulk_update([row for row, changed in edits if changed], sorted(fields), batch_size=500)
        placed: list[int] = self.remembered("placed", list)
        placed += (row.pk for row in _placed(edits))
        return []

    def all_written(self) -> list[str]:
        """Warnings about written sources that have the place of another source."""
        placed, found = self.remembered("placed", list[int]), list[str]()
        for start in range(0, len(placed), duplicates.AT_ONCE):
            rows = Source.objects.in_bulk(placed[start : start + duplicates.AT_ONCE])
            twice = duplicates.alike([rows[pk] for pk in placed[start : start + duplicates.AT_ONCE] if pk in rows])
            found += (f"source {rows[pk].name}: {text}" for pk, text in twice.items())
            if len(found) >= MOST_ALIKE:
                break
        return found[:MOST_ALIKE]

    def _retire(self, edits: Sequence[tuple[Source, set[str] | None]]) -> None:
        """Apply the effects of retiring, or of ending it."""
        turned = [row for row, changed in edits if changed and "retired" in changed]
        for verb, rows in (
            (retirement.retire, [row for row in turned if row.retired]),
            (retirement.unretire, [row for row in turned if not row.retired]),
        ):
            if rows:
                verb(rows, by=self.by)

    def obstacle(self, row: Source) -> str:
        return removals.obstacle(row, self.remembered("removals", removals.under_way))

    def users(self, row: Source) -> list[str]:
        """The rows that use it, its backups aside."""
        return []

    def uses(self, row: Source) -> list[str]:
        backups, copies = Backup.objects.filter(assignment__source=row), Copy.objects.filter(assignment__source=row)
        return points_of(backups, copies, REMOVES.format("sources", quote(row.name)))


def _placed(edits: Sequence[tuple[Source, set[str] | None]]) -> list[Source]:
    """The sources that are new, or in another place than before."""
    return [row for row, changed in edits if changed is None or not changed.isdisjoint(duplicates.PLACE)]


def _columns(changed: set[str]) -> set[str]:
    """The columns that an edit of these fields of a source writes."""
    return (changed | ({"real_path"} if "path" in changed or "kind" in changed else set())) - {"retired"}


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
    return {"excluded_dates": "leave no opening within two years; take some of them away"}, []


def policies_of(source: Source) -> list[str]:
    """The names of the policies that it is under."""
    return sorted(assignment.policy.schedule.name for assignment in source.assignments.all())


def emit_after_commit(assignment_ids: Iterable[int]) -> None:
    """Put due backups of these assignments on the backlog once they are committed: a new one is due at once."""
    ids = list(assignment_ids)
    transaction.on_commit(lambda: planning.emit_due(None, ids))
