"""How repositories, policies and sources are edited, and what follows from an edit."""

import logging
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, QuerySet
from django.utils import timezone
from django.utils.text import slugify

from declarations.service import Service, used_by
from jobs import decisions
from jobs.breakers import verbs
from jobs.conf import PROGRAM
from jobs.models import Origin
from schedules import rescheduling, rollouts
from schedules.models import Schedule
from sources import declarations, planning
from sources.backups import overlaps, reach, repositories
from sources.domain.excluded_dates import ExcludedDates
from sources.domain.preview import check_period_meets_window
from sources.models import Backup, Policy, Repository, Source
from sources.repository_breaker import guarded_by, try_again
from sources.secrets_by_reference import problem_with_stored, store_secret
from sources.storage.store import StorageFailed

log = logging.getLogger(__name__)

PLACED_BY = frozenset({"remote", "location", "secrets", "key"})
"""A change of these is tried before a repository is saved."""

FOUND_OUT = frozenset({"identity", "sees_changes"})

LEAST_KEY = 32
"""Characters of a key, of which a digest lies beside what it encrypts."""

KEEP_THE_KEY = (
    "Without its key no backup in an encrypted repository can be read. Keep it on paper, where this host is not: "
    f"`{PROGRAM} repositories key export NAME` prints it with what to do"
)

SCHEDULE_FIELDS = ("name", "cron", "zone", "enabled", "priority", "retry_policy", "throttle")
"""Fields of a policy that are its schedule's."""

PLANNED_FROM = frozenset({
    "cron", "zone", "window", "excluded_dates", "only_if_it_fits", "enabled", "priority", "throttle", "seeding_limit",
    "repository",
})  # fmt: skip
"""A change of these moves next-backup dates or records on the backlog."""


class Repositories(Service[Repository]):
    """Before one is saved, writing, reading and deleting are tried there. `take_over`: also what another installation
    has made."""

    model, declaration = Repository, declarations.Repository
    take_over = False

    def problems(self, row: Repository, changed: set[str] | None) -> dict[str, str]:
        if changed is not None and "encrypted" in changed:
            return {"encrypted": "is chosen when a repository is made: make another one, and let new backups go there"}
        if changed is not None and changed.isdisjoint(PLACED_BY):
            return {}
        if row.pk and row.encrypted and not row.key:
            return {"key": "is missing: without it no backup there can be read"}
        try:
            overlaps.check_repository(row)
            row.notices = reach.check_repository(self.account, row) if self.account else []
        except ValidationError as error:
            return _first_messages(error)
        if row.notices and changed is not None:
            changed.add("secrets")
            return {}  # an administrator is to set them first
        return self._try(row)

    def _try(self, row: Repository) -> dict[str, str]:
        """What is found out about a place is kept with the row."""
        references = [("key", row.key), *(("secrets", each) for each in row.secrets.values())]
        if problems := {field: text for field, each in references if (text := problem_with_stored(each))}:
            return problems
        if row.encrypted and not row.key:
            row.new_key = row.new_key or secrets.token_hex(32)
        try:
            found = self.probe(row)
        except StorageFailed as error:
            return {"secrets" if row.remote else "key": str(error)}
        if "problem" in found:
            return {found["field"]: found["problem"]}
        row.identity, row.sees_changes = UUID(found["id"]), found["sees_changes"]
        row.notices += found["notices"]
        return {}

    def probe(self, row: Repository) -> dict[str, Any]:
        """What comes of trying a place, as `sources.engines.probing` says it. Raises: StorageFailed."""
        location = repositories.location_of(row, row.new_key)
        key = row.new_key or repositories.key_of(row)
        if key is not None and len(key) < LEAST_KEY:
            return {"field": "key", "problem": f"has fewer than {LEAST_KEY} characters; leave it empty: one is made"}
        ours = asdict(repositories.identity_of(row, row.new_key))
        try:
            found: dict[str, Any] = repositories.ask("probe", location, ours=ours, take_over=self.take_over)
        except repositories.Unanswered as error:
            return {"field": "location", "problem": str(error)}
        return found

    def write(self, row: Repository, changed: set[str] | None) -> list[str]:
        """What is corrected is tried at once: a new location ends the wait of an open breaker."""
        is_placed = changed is None or not changed.isdisjoint(PLACED_BY)
        if row.new_key and not row.key:
            row.key = store_secret(f"repository-{slugify(row.name)[:70]}-{row.identity.hex[:8]}", row.new_key)
        super().write(row, changed | FOUND_OUT if changed and is_placed else changed)
        if is_placed:
            transaction.on_commit(partial(_claim, row))
        if changed is None:
            return list(row.notices)
        verbs.rename(guarded_by(row))
        tried = [f"{row} was failing for everybody; one record is tried there now"]
        return [*row.notices, *(tried if is_placed and try_again(row, by=self.by) else [])]

    def write_all(self, edits: Sequence[tuple[Repository, set[str] | None]]) -> list[str]:
        keys = [f"repository {row}: its key, shown this once: {row.new_key}" for row, _ in edits if row.new_key]
        return [*super().write_all(edits), *keys, *([KEEP_THE_KEY] if keys else [])]

    def key(self, row: Repository) -> str:
        """The key of an encrypted repository, for paper. That it was read is kept in the log. Raises: ValueError."""
        if (key := repositories.key_of(row)) is None:
            raise ValueError(f"{row} is not encrypted, so it has no key")
        decisions.doing("key read", f"{self.by} read the key of repository {row}", kind="repository", subject=f"{row}")
        return key

    def finish(self, row: Repository) -> list[str]:
        reason = None if row.remote else make_directory(row.location)
        return [f"{row.location} cannot be made: {reason}"] if reason else []

    def uses(self, row: Repository) -> list[str]:
        names = list(row.policies.order_by("schedule__name").values_list("schedule__name", flat=True))
        found = [used_by(row.name, "policy", names, "repository")] if names else []
        return [*found, *backups_of(row.backups.all())]

    def delete(self, row: Repository) -> None:
        """Its breaker goes with it."""
        guarded = guarded_by(row)
        row.delete()
        verbs.forget(guarded)


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
            return _first_messages(error)
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


def _first_messages(error: ValidationError) -> dict[str, str]:
    return {field: messages[0] for field, messages in error.message_dict.items()}


def _claim(row: Repository) -> None:
    """Write down in a repository whose it is."""
    try:
        location, ours = repositories.location_of(row), repositories.identity_of(row)
        reason = repositories.why("not_claimed", location, ours=asdict(ours))
    except StorageFailed as error:
        reason = str(error)
    if reason:
        log.warning("repository %s does not say yet whose it is: %s", row, reason)


def make_directory(location: str) -> str | None:
    """Make the directory of a repository, with its parents, if it is missing. Returns why that is not possible."""
    return repositories.why("not_made", location)


def policies_of(source: Source) -> list[str]:
    """The names of the policies that it is under."""
    return sorted(assignment.policy.schedule.name for assignment in source.assignments.all())


def backups_of(backups: QuerySet[Backup]) -> list[str]:
    """Why what these backups are of is not deleted, in a sentence; none when there are none.

    Its backups would be forgotten with it, and still lie in the repository, as no source's.
    """
    count = backups.count()
    if not count:
        return []
    return ["1 backup of it is recorded" if count == 1 else f"{count:,} backups of it are recorded"]


def emit_after_commit(assignment_ids: Iterable[int]) -> None:
    """Put what is due of these assignments on the backlog once they are committed: a new one is due at once."""
    ids = list(assignment_ids)
    transaction.on_commit(lambda: planning.emit_due(None, ids))
