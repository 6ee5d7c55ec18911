"""Looks into repositories, and restores, in processes that can be killed (`apart.py`)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from django.conf import settings

from sources.backups import repositories
from sources.engines.base import SourceSpec
from sources.models import Assignment, Repository
from sources.network.bounded_threads import BoundedThreads
from sources.processes.runner import StopSignal
from sources.restores import elsewhere
from sources.restores.drilling import Drilled
from sources.restores.scratch import Scratch
from sources.storage import layout, trees
from sources.storage.location import Location
from sources.storage.places import Report, Step, Wish
from sources.storage.stores import store_of
from sources.storage.trees import Tree

PATIENCE_SECONDS = 5.0
"""Of a page, for what may take longer: it goes on behind it."""
READING = (
    "what was asked for is still being read, which takes some seconds for a million files; it goes on: look again in a "
    "moment"
)


looks = BoundedThreads("look-into-repository", 4)


class Unfinished(Exception):
    """A look takes longer than a page may. The message says to look again."""


def cache() -> Path:
    """Where the manifests that were looked at are kept for the next look."""
    return Path(settings.VAR_DIR) / "trees"


def points(repository: Repository, assignment: str) -> list[str]:
    """The points of an assignment, by its folder, the oldest first. Raises: StorageFailed."""
    location = repositories.location_of(repository)
    found: list[str] = _order("points", location, Event(), repositories.ANSWER_SECONDS, folder=assignment)
    return found


def versions(repository: Repository, assignment: str, points: list[str], path: str) -> list[dict[str, Any]]:
    """The versions of a file in these points, the newest first (`trees.versions_of`). Raises: StorageFailed,
    Unfinished."""
    found: list[dict[str, Any]] = _looked_up(
        "versions_of", repository, assignment=assignment, points=points, path=path, cache=cache()
    )
    return found


@contextmanager
def tree_of(repository: Repository, assignment: str, point: str, patience: float = PATIENCE_SECONDS) -> Iterator[Tree]:
    """What a point holds. Its first look reads the manifest. Raises: Refused, StorageFailed, Unfinished."""
    location = repositories.location_of(repository)
    if not trees.is_cached(location, assignment, point, cache()):
        facts = {"assignment": assignment, "point": point, "cache": cache()}
        _looked_up("index", repository, patience, **facts)
    with trees.opened(store_of(location, Event()), assignment, point, cache()) as tree:
        yield tree


def _looked_up(do: str, repository: Repository, patience: float = PATIENCE_SECONDS, **facts: Any) -> Any:
    """The answer to an order that may take long. What it has found so far is there for the next call."""
    with elsewhere.named(repository, facts["assignment"], facts.get("point") or facts["points"][0], points):
        location = repositories.location_of(repository)
        key = json.dumps([do, location.outside, facts], default=str)
        try:
            return looks.call_now(
                key, lambda: _order(do, location, Event(), repositories.ANSWER_SECONDS, **facts), patience
            )
        except TimeoutError:
            raise Unfinished(READING) from None


def restore(
    repository: Repository,
    wish: Wish,
    stop: StopSignal,
    on_step: Callable[[Step], None] = lambda step: None,
    grace: float = 8.0,
    *,
    do: str = "restore",
    source: SourceSpec | None = None,
) -> Report:
    """Restore into a folder of this host, or as `do` names it, to `source`; block until done.

    Raises: Refused before anything is written; StorageFailed, Stopped, after which the same restore goes on.
    """
    facts: dict[str, Any] = {"wish": asdict(wish), "cache": cache()} | ({"source": asdict(source)} if source else {})
    with elsewhere.named(repository, wish.assignment, wish.point, points):
        location = repositories.location_of(repository)
        report = Report(**_order(do, location, stop, repositories.SILENT_SECONDS, on_step, grace, **facts))
    if report.lost:
        report.elsewhere = elsewhere.way_out(repository, wish.assignment, wish.point, points)
    return report


def drill(
    repository: Repository,
    assignment: Assignment,
    scratch: Scratch,
    stop: StopSignal,
    on_step: Callable[[Step], None],
    grace: float,
) -> Drilled:
    """Restore the newest point of an assignment into scratch space, and compare. Blocks until done.

    Raises: Refused, StorageFailed, Stopped.
    """
    folder = assignment.directory
    newest = max(repositories.recorded(assignment, repository), key=layout.order_of, default="")
    facts = {"assignment": folder, "cache": cache(), "scratch": asdict(scratch), "newest": newest}
    with elsewhere.named(repository, folder, newest, points):
        location = repositories.location_of(repository)
        done = Drilled(**_order("drill", location, stop, repositories.SILENT_SECONDS, on_step, grace, **facts))
    if done.lost:
        done.error = elsewhere.added(done.error, elsewhere.way_out(repository, folder, done.point, points))
    return done


def _order(
    do: str,
    location: Location,
    stop: StopSignal,
    silent_for: float,
    on_step: Callable[[Step], None] = lambda step: None,
    grace: float = 0.0,
    **facts: Any,
) -> Any:
    """Give an order. Raises: Refused, StorageFailed, Stopped; ValueError, ProgramMissing for what cannot be reached."""

    def take(found: dict[str, Any]) -> None:
        if "step" in found:
            on_step(Step(**found["step"]))

    order = {"do": do, "location": location.as_json(), **facts}
    answered = repositories.give_order("sources.restores.apart", order, stop, silent_for, grace, take)
    return repositories.answer_of(answered, location, silent_for)["done"]
