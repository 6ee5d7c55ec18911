"""Edits of repositories: each is tried before it is saved, and an encrypted one gets its key. An edit over the web
waits for no server: a repository on a remote is tried once it is saved (`backups.upkeep.repository_trials`).
"""

import secrets
from collections.abc import Sequence
from functools import partial
from shlex import quote
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils.text import slugify

from backups import locations, repository_orders, repository_state, trying_again
from backups.upkeep import looks, removals, repository_trials
from declarations.service import FinishResult, Service, used_by
from jobs import decisions
from jobs.breakers import verbs
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from sealing.lookup import problem_with_stored, store_secret
from sources.availability.repository_breaker import guarded_by, try_again
from sources.declarations import overlaps, reach, resources
from sources.models import Backup, Copy, Format, Repository, TrialKind
from storage.points.store import StorageFailed
from storage.recover.instructions import LOST

WHERE = ("location", "remote")
PLACES = (*WHERE, "secrets")
PLACED_BY = frozenset({*PLACES, "key"})
NAMED_BY = frozenset({"name", "location", "remote"})
"""A change of these is tried before a repository is saved."""

FOUND_OUT = frozenset({"identity", "made_at", "away_since", "away_why", "looked_at", "looked_to", "untried", "tried"})

KEEP_THE_KEY = (
    "Without its key no backup in an encrypted repository can be read. Keep it on paper, away from this host: "
    f"`{PROGRAM} repositories key NAME` prints it with what to do"
)

REMOVES = f"`{PROGRAM} {{}} remove {{}}` deletes it with or without their files"

TESTING = "is being tested"
MOVED = "it was moved, and whether its points are at the new place is still to be seen"
TRYING = (
    f"it {TESTING}, and nothing goes there until that is done: its page and `tested` in the API show the result. "
    "One that cannot be used is tested again every ten minutes, and after each change"
)


class Repositories(Service[Repository]):
    """Repositories. Writing, reading and deleting are tried there before one is saved, at the command line and for a
    directory. `take_over`: accept one that another installation has made; `force`: also accept a place with other
    files, or one where recorded points are missing.
    """

    model, declaration = Repository, resources.RepositoryDeclaration
    take_over = force = False

    def fill(self, row: Repository, sent: dict[str, Any]) -> set[str] | None:
        """Fill in the fields, and accept `force` in addition."""
        self.force = bool(sent.get("force", self.force))
        return super().fill(row, {name: value for name, value in sent.items() if name != "force"})

    def problems(self, row: Repository, changed: set[str] | None) -> dict[str, str]:
        row.encrypted = row.encrypted or (changed is None and row.format == Format.RESTIC)
        for field in {"encrypted", "format"} & (changed or set()):
            return {field: "is chosen when a repository is made: make another one, and let new backups go there"}
        if changed is not None and changed.isdisjoint(PLACED_BY):
            return {}
        if row.pk and row.encrypted and not row.key:
            return {"key": "is missing: without it no backup there can be read"}
        # first, in a process that can be killed: the following steps would wait for a dead share without a limit
        if not row.remote and (reason := repository_orders.reason_for("not_usable", row.location)):
            return {"location": reason}
        try:
            overlaps.check_repository(row)
            row.lacks = ""
            row.notices = reach.check_repository(self.account, row) if self.account else []
        except ValidationError as error:
            return first_messages(error)
        if row.notices and changed is not None:
            changed.add("secrets")
            row.untried = TrialKind.USUAL if repository_trials.needs_a_server(row) else ""
            return {}  # an administrator is to set them first
        return self._try(row, next(each for each in (*PLACES, "key") if changed is None or each in changed))

    def _try(self, row: Repository, field: str) -> dict[str, str]:
        """Try the place, and keep the results with the row. `field`: the one that changed."""
        references = [("key", row.key), *(("secrets", each) for each in row.secrets.values())]
        if problems := {field: text for field, each in references if (text := problem_with_stored(each))}:
            return problems
        if row.encrypted and not row.key:
            row.new_key = row.new_key or secrets.token_hex(32)
        row.untried, row.tried = "", ""
        if self.account and repository_trials.needs_a_server(row):
            row.untried = TrialKind.FORCED if self.force else TrialKind.USUAL
            row.notices.append(TRYING)
            return {}
        try:
            found = repository_trials.probe(row, take_over=self.take_over)
        except StorageFailed as error:
            return {"secrets" if row.remote else "key": str(error)}
        if "problem" in found:
            return {found["field"]: found["problem"]}
        row.identity = UUID(found["id"])
        row.notices += found["notices"]
        is_moved = row.pk is not None and field in PLACES
        if is_moved and found["is_new"]:
            row.made_at = None
        held = found.get("holds", ())
        if held and not self.force and (row.pk is None or is_moved):
            return {"location": repository_trials.holds(row, held)}
        if row.pk is None or not (lacks := looks.lacking(row, is_new=found["is_new"])):
            return {}
        if not self.force:
            remedy = f"{repository_trials.MOVE}. {repository_trials.FORCE}: its sources count as doubtful then"
            return {field: f"{lacks}. {remedy}"}
        row.lacks = f"it was moved by force: {lacks}"
        row.notices.append(f"{lacks}; its backups count as doubtful")
        return {}

    def test(self, row: Repository) -> dict[str, Any]:
        """Try one that is in use: it must have room, and one that has taken a backup must not be new. Raises:
        StorageFailed.
        """
        location, made = locations.location_of(row), row.made_at is not None
        if why_not := repository_state.not_writable(row):
            return {"problem": why_not}
        found = repository_trials.probe(row, take_over=self.take_over)
        return {"problem": LOST.format(location.outside)} if made and found.get("is_new") else found

    def write(self, row: Repository, changed: set[str] | None) -> list[str]:
        """Save, and try a corrected repository at once: a new location ends the wait of an open breaker."""
        is_placed = changed is None or not changed.isdisjoint(PLACED_BY)
        if row.new_key and not row.key:
            row.key = store_secret(f"repository-{slugify(row.name)[:70]}-{row.identity.hex[:8]}", row.new_key)
        if changed is None or not changed.isdisjoint(NAMED_BY):
            row.by_superuser = self.account is None or self.account.is_superuser
            changed = changed and changed | {"by_superuser"}
        if changed and is_placed:
            is_in_doubt = row.untried and row.made_at and not changed.isdisjoint(WHERE)
            why = row.lacks or (MOVED if is_in_doubt else "")
            row.away_since, row.away_why = database_clock(), why  # it is looked at within a minute
            row.looked_at, row.looked_to = None, 0
        super().write(row, changed | FOUND_OUT if changed and is_placed else changed)
        if is_placed and row.untried:
            transaction.on_commit(looks.plan)
        if changed is None:
            return list(row.notices)
        verbs.rename(guarded_by(row))
        if row.untried:
            return list(row.notices)
        if is_placed and changed & trying_again.SECRETS:
            transaction.on_commit(partial(trying_again.of_repository, row))
        tried = [f"{row} was failing for all sources; one record is tried there now"]
        return [*row.notices, *(tried if is_placed and try_again(row, by=self.by) else [])]

    def write_all(self, edits: Sequence[tuple[Repository, set[str] | None]]) -> list[str]:
        """Write many repositories; the new keys are among the notices to show, except in a dry run, whose keys are
        thrown away.
        """
        is_kept = not self.remembered("dry_run", bool)
        made = [row for row, _ in edits if row.new_key and is_kept]
        keys = [f"repository {row}: its key, shown this once: {row.new_key}" for row in made]
        return [*super().write_all(edits), *keys, *([KEEP_THE_KEY] if keys else [])]

    def key(self, row: Repository) -> str:
        """The key of an encrypted repository, for paper. The log records that it was read. Raises: ValueError."""
        if (key := locations.key_of(row)) is None:
            raise ValueError(f"{row} is not encrypted, so it has no key")
        decisions.log("key read", f"{self.by} read the key of repository {row}", kind="repository", subject=f"{row}")
        return key

    def finish(self, row: Repository) -> FinishResult:
        if row.made_at is not None:  # a place that is empty now is a disk that is away
            return FinishResult()
        if self.account and repository_trials.needs_a_server(row):
            return FinishResult()
        if row.format == Format.RESTIC:
            failed, unlike = repository_trials.make(row)
            return FinishResult([failed] if failed else [], [unlike] if unlike else [])
        reason = None if row.remote else make_directory(row.location)
        return FinishResult(failed=[f"{row.location} cannot be made: {reason}"] if reason else [])

    def obstacle(self, row: Repository) -> str:
        return removals.obstacle(row, self.remembered("removals", removals.under_way))

    def users(self, row: Repository) -> list[str]:
        """The rows that use it, its backups aside."""
        found = ((row.policies, "repository"), (row.copied_policies, "copy_to"))
        names = {field: list(rows.values_list("schedule__name", flat=True)) for rows, field in found}
        return [used_by(row.name, "policy", sorted(each), field) for field, each in names.items() if each]

    def uses(self, row: Repository) -> list[str]:
        return [
            *self.users(row),
            *points_of(row.backups.all(), row.copies.all(), REMOVES.format("repositories", quote(row.name))),
        ]

    def delete(self, row: Repository) -> None:
        """Delete the repository, and its breaker with it."""
        guarded = guarded_by(row)
        row.copies.all().delete()  # which hold no point
        row.delete()
        verbs.forget(guarded)


def result_of_test(row: Repository) -> str:
    """The result of trying a repository that was saved over the web, in a sentence; empty if it was tried before."""
    if not row.untried:
        return row.tried
    return f"not usable: {row.tried}" if row.tried else TESTING


def make_directory(location: str) -> str | None:
    """Make the directory of a repository, with its parents, if it is missing. Returns why that is not possible."""
    return repository_orders.reason_for("not_made", location)


def points_of(backups: QuerySet[Backup], copies: QuerySet[Copy], then: str) -> list[str]:
    """The reason why the source or repository of these backups and copies is not deleted at once, in a sentence with
    advice, `then`; an empty list if there are none.
    """
    if count := backups.count():
        text = "1 backup is recorded" if count == 1 else f"{count:,} backups are recorded"
        return [f"{text}: {then}"]
    return [f"it has copies of points: {then}"] if copies.exclude(points=[]).exists() else []


def first_messages(error: ValidationError) -> dict[str, str]:
    return {field: messages[0] for field, messages in error.message_dict.items()}
