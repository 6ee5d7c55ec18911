"""Trials of repositories: they must be usable, and have the expected contents.

At the command line a repository is tried before it is saved. A web request waits for no server: a repository on a
remote is saved as *untried*, and nothing is backed up there, copied there, checked or removed until a record of kind
`look` has tried it, at once and then every ten minutes until it can be used.

    fleet.repository_edits   saves it as untried; `looks.plan` puts a look on the backlog
    look                     tries it, and writes nothing
    write_down               in the settle's transaction: it is tried, or why it cannot be used, unless an edit came
                             between: that is tried by another look
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from shlex import quote
from typing import Any

from django.conf import settings
from django.db import transaction

from backups import locations, repository_orders, trying_again
from backups.upkeep import looks
from external.formatting import some_of
from external.processes.runner import StopSignal
from jobs import decisions
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from jobs.handlers import Run
from jobs.outcomes import ClaimedRecord, Outcome, Released, Succeeded
from sources.availability import repository_breaker
from sources.models import Format, Repository, TrialKind
from storage.places.location import joined
from storage.points.store import StorageFailed, StorageStopped

AS_TRIED = ("location", "remote", "secrets", "encrypted", "key", "untried")
"""The columns that a try depends on."""
OF_RESTIC = frozenset({"config", "data", "keys", "snapshots"})
LEAST_KEY = 32
"""The least characters of a key: its digest is stored next to the data that it encrypts."""
FORCE = (
    "To continue all the same, force it: `--force` of `repositories` and `apply`, `force` in the API, a box in the "
    "admin"
)
MOVE = "Move or copy its files to the new place first"
HOLDS = "it holds {}: name an empty folder, or one that does not exist yet, such as {}. " + FORCE
HOLDS_RESTIC = "a restic repository that this scheduler has not made"
UNLIKE = (
    "it cuts files into pieces differently from {first}, which did not say how it does: {reason}. Data that is backed "
    "up to both, or copied from one to the other, is stored there twice. To store it once, before the first backup: "
    "`{program} repositories remove {name}`, delete the files in {location}, and add it again when {first} answers"
)
MADE_LATER = (
    "its first backup would make it, and it would cut files differently from {0}, so that data of both would be stored "
    "there twice: to store it once, remove the repository, and add it again when it can be made"
)
WORKS = "it was written, read and deleted there"


@dataclass
class Trial:
    """A repository that was tried, `as_it_was` then. `problem`: the reason why it cannot be used, empty if it can;
    `is_new`: the place does not name its owner; `lacks`: its missing contents, with which it is used anyway;
    `notices`: sentences for users.
    """

    repository: int
    as_it_was: tuple[Any, ...]
    problem: str = ""
    is_new: bool = False
    lacks: str = ""
    notices: tuple[str, ...] = ()


def look(run: Run) -> Outcome:
    """Try a repository if that is still to be done, else continue the round of its points. Blocks for some minutes at
    the most."""
    row = Repository.objects.filter(pk=run.record.payload["repository"]).first()
    if not row or not row.untried:
        return looks.look(run)
    found = tried(row, run.stop)
    return Released() if found is None else Succeeded(found)


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the result of a look. Runs in the settle's transaction."""
    match outcome:
        case Succeeded(result=Trial() as found):
            row = Repository.objects.select_for_update(no_key=True).filter(pk=found.repository).first()
            if row and as_it_is(row) == found.as_it_was:
                _note(row, found, record, now)
        case _:
            looks.write_down(record, outcome, now)


def _note(row: Repository, found: Trial, record: ClaimedRecord, now: datetime) -> None:
    row.looked_at = record.started_at
    if found.problem:
        row.away_since, row.away_why, row.tried = row.away_since or now, found.problem, found.problem
    else:
        row.untried, row.tried = "", "; ".join((WORKS, *found.notices))
        row.made_at = None if found.is_new else row.made_at
        row.away_since, row.away_why = (row.away_since or now, found.lacks) if found.lacks else (None, "")
        by = "the look that tried it"
        transaction.on_commit(partial(repository_breaker.try_again, row, by=by))
        transaction.on_commit(partial(trying_again.of_repository, row))
    row.save(update_fields=["looked_at", "untried", "tried", "made_at", "away_since", "away_why"])
    decisions.log("missed" if found.problem else "tried", f"repository {row}: {row.tried}", record=record, now=now)


def as_it_is(row: Repository) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in AS_TRIED)


def tried(row: Repository, stop: StopSignal) -> Trial | None:
    """Try a repository that is saved, and make one of restic. Blocks for some minutes at the most. None if it was
    stopped before."""
    found, is_forced = Trial(row.pk, as_it_is(row)), row.untried == TrialKind.FORCED
    try:
        probed = probe(row, stop=stop)
        found.problem = probed.get("problem", "")
        if not found.problem:
            found.is_new, found.notices = probed["is_new"], tuple(probed["notices"])
            found.lacks = looks.lacking(row, stop, is_new=found.is_new)
            if not is_forced:
                lacks, found.lacks = found.lacks, ""
                found.problem = holds(row, probed["holds"]) or (f"{lacks}. {MOVE}. {FORCE}" if lacks else "")
        if not found.problem and row.format == Format.RESTIC and row.made_at is None:
            found.problem, unlike = make(row, stop)
            found.notices += (unlike,) if unlike else ()
    except StorageFailed as error:
        found.problem = str(error)
    except StorageStopped:
        return None
    return found


def probe(row: Repository, *, take_over: bool = False, stop: StopSignal | None = None) -> dict[str, Any]:
    """The result of trying a place, as in `probing.probe`. Raises: StorageFailed; StorageStopped, where there is a
    `stop`.
    """
    location = locations.location_of(row, row.new_key)
    key = row.new_key or locations.key_of(row)
    if key is not None and len(key) < LEAST_KEY:
        return {"field": "key", "problem": f"has fewer than {LEAST_KEY} characters; leave it empty, and one is made"}
    facts: dict[str, Any] = {"ours": asdict(locations.identity_of(row, row.new_key)), "take_over": take_over}
    try:
        return dict(repository_orders.ask("probe", location, stop, **facts, reserve=settings.RESERVE_PERCENT))
    except repository_orders.RepositorySilent as error:
        return {"field": "location", "problem": str(error)}


def holds(row: Repository, found: Sequence[str]) -> str:
    """The reason why a place with other files is not made a repository without being asked to; empty if it has none."""
    if not found:
        return ""
    names = HOLDS_RESTIC if set(found) >= OF_RESTIC else f"other files, such as {some_of(sorted(found), 3)}"
    return HOLDS.format(names, joined(row.location, "backupsched"))


def make(row: Repository, stop: StopSignal | None = None) -> tuple[str, str]:
    """Make a repository of restic, which cuts files into pieces as the first one does, if that answers. Returns the
    reason why it cannot be made, and a notice for users; each may be empty. Raises: StorageStopped, if there is a
    `stop`.
    """
    first = _first_beside(row)
    like, unlike = None, ""
    try:
        like = locations.location_of(first).as_json() if first else None
    except StorageFailed as error:
        unlike = str(error)
    ours = asdict(locations.identity_of(row))
    try:
        found = repository_orders.ask("make_repository", locations.location_of(row), stop, ours=ours, like=like)
    except repository_orders.RepositorySilent as error:
        found = {"failed": str(error)}
    if reason := found.get("failed"):
        return f"{row.location} cannot be made: {reason}{f'; {MADE_LATER.format(first)}' if first else ''}", ""
    unlike = found["unlike"] or (found["made"] and unlike)
    facts = {"first": first, "name": quote(row.name), "location": row.location, "program": PROGRAM}
    return "", UNLIKE.format(reason=unlike, **facts) if unlike else ""


def needs_a_server(row: Repository) -> bool:
    """True if trying it, and making it, contacts a server."""
    first = _first_beside(row) if row.format == Format.RESTIC else None
    return bool(row.remote or (first and first.remote))


def _first_beside(row: Repository) -> Repository | None:
    """The first other repository of restic, which `row` is made like."""
    return Repository.objects.filter(format=Format.RESTIC).exclude(pk=row.pk).order_by("pk").first()


def try_at_once(row: Repository) -> None:
    """Let a look try it now, and not when the next one is due."""
    Repository.objects.filter(pk=row.pk).exclude(untried="").update(looked_at=None)
    looks.plan(database_clock())
