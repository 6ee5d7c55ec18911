"""How repositories are edited: each is tried before it is saved, and an encrypted one gets its key."""

import secrets
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.text import slugify

from declarations.service import Service, used_by
from jobs import decisions
from jobs.breakers import verbs
from jobs.conf import PROGRAM
from sources import declarations
from sources.backups import overlaps, reach, repositories
from sources.models import Backup, Repository
from sources.repository_breaker import guarded_by, try_again
from sources.secrets_by_reference import problem_with_stored, store_secret
from sources.storage.store import StorageFailed

PLACED_BY = frozenset({"remote", "location", "secrets", "key"})
"""A change of these is tried before a repository is saved."""

FOUND_OUT = frozenset({"identity", "sees_changes"})

LEAST_KEY = 32
"""Characters of a key, of which a digest lies beside what it encrypts."""

KEEP_THE_KEY = (
    "Without its key no backup in an encrypted repository can be read. Keep it on paper, where this host is not: "
    f"`{PROGRAM} repositories key export NAME` prints it with what to do"
)


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
        # first, in a process that can be killed: what follows would wait for a share that has died for as long as it is
        if not row.remote and (reason := repositories.why("not_usable", row.location)):
            return {"location": reason}
        try:
            overlaps.check_repository(row)
            row.notices = reach.check_repository(self.account, row) if self.account else []
        except ValidationError as error:
            return first_messages(error)
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


def make_directory(location: str) -> str | None:
    """Make the directory of a repository, with its parents, if it is missing. Returns why that is not possible."""
    return repositories.why("not_made", location)


def backups_of(backups: QuerySet[Backup]) -> list[str]:
    """Why what these backups are of is not deleted, in a sentence; none when there are none.

    Its backups would be forgotten with it, and still lie in the repository, as no source's.
    """
    count = backups.count()
    if not count:
        return []
    return ["1 backup of it is recorded" if count == 1 else f"{count:,} backups of it are recorded"]


def first_messages(error: ValidationError) -> dict[str, str]:
    return {field: messages[0] for field, messages in error.message_dict.items()}
