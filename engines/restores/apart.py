"""Looks into a repository, and restores, in a process of its own, which `backups.restores.process` starts and can end:
a dead share holds it for ever.

Its one order is a JSON object on standard input. It prints a line of JSON for each step, one about once a second while
it lives, and at its end one with the answer. Without Django.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engines.base import RunEnded, SourceSpec
from engines.restores import back, drilling
from engines.restores.drilling import DATABASES, Drilled
from engines.restores.scratch import Scratch
from engines.restores.terms import Terms
from engines.work import Stop
from external.processes.orders import received, say
from external.processes.programs import ProgramMissing
from external.redaction import redacted
from storage.places import identity
from storage.places.directories import missing
from storage.places.location import Location
from storage.places.locks import Busy
from storage.points import runs
from storage.points.manifests import ManifestDamaged
from storage.points.places import Report, Step, TargetFailed, Wish
from storage.points.store import Stopped, StorageFailed, Store
from storage.points.trees import opened, versions_of
from storage.recover.instructions import LOST
from storage.restoring import restoring
from storage.stores import store_of


def points(store: Store, folder: str, made: bool) -> dict[str, list[str]]:
    """The points of an assignment that are ours, and foreign ones. `made`: the repository has said whose it is before.
    Raises: StorageFailed, also for a place that has nothing and says so no longer, as a mount point without its
    disk."""
    there = runs.all_points(store, folder)
    ours = store.ours(there)
    found = {"ours": ours, "foreign": [each for each in there if each not in {*ours}]}
    outside = replace(store, location=store.location.bare)
    if not found["ours"] and made and store.location.keeps_files and identity.read(outside) is None:
        raise StorageFailed(LOST.format(store.location.outside))
    return found


def index(store: Store, assignment: str, point: str, cache: Path) -> None:
    """Put the tree of a point into the cache."""
    with opened(store, assignment, point, cache):
        pass


def restore(store: Store, wish: Wish, cache: Path) -> Report:
    """Restore into a folder of this host."""
    return restoring.restore_to_stay(wish, store, cache, _say_step)


def fetch(store: Store, wish: Wish, cache: Path) -> Report:
    """Restore into scratch space."""
    return restoring.restore(wish, store, cache, _say_step)


def put_back(store: Store, wish: Wish, cache: Path, source: SourceSpec) -> Report:
    """Restore to where it came from."""
    return back.put_back(wish, store, source, cache, _say_step)


def create_database(
    store: Store,
    wish: Wish,
    cache: Path,
    source: SourceSpec,
    loader: dict[str, Any] | None = None,
    terms: dict[str, Any] | None = None,
) -> Report:
    """Restore a dump as a new database. `loader`: as whom it is loaded; None: as the worker. `terms`: what a person has
    allowed."""
    as_whom, allowed = Scratch(**loader) if loader else None, Terms(**terms or {})
    report: Report = DATABASES[source.kind].create(wish, store, source, cache, _say_step, as_whom, allowed)
    return report


def drill(store: Store, assignment: str, scratch: dict[str, Any], newest: str, source_kind: str) -> Drilled:
    """Restore the newest point into scratch space, and compare."""
    return drilling.drill(store, assignment, Scratch(**scratch), _say_step, newest, source_kind)


FOUND: tuple[Callable[..., Any], ...] = (
    points, index, versions_of, restore, fetch, put_back, create_database, drill,
)  # fmt: skip
ORDERS = {each.__name__: each for each in FOUND}


def answer(order: dict[str, Any]) -> dict[str, Any]:
    """What comes of an order: *done*, or why it was not: *refused*, *failed*, *failed here* (not by the repository),
    *stopped*."""
    location, do = Location.of_json(order.pop("location")), ORDERS[order.pop("do")]
    if location.directory and (reason := missing(str(location.directory))):
        return {"failed": reason}
    store = store_of(location, Stop(location.directory), known=order.pop("known"))
    order |= {"cache": Path(order["cache"])} if "cache" in order else {}
    if wish := order.get("wish"):
        order["wish"] = Wish(**wish | {"target": Path(wish["target"]), "paths": tuple(wish["paths"])})
    secrets = [*location.secrets]
    if source := order.get("source"):
        order["source"] = SourceSpec(**source)
        secrets += order["source"].hidden
    try:
        done = do(store, **order)
        return {"done": asdict(done) if isinstance(done, Report | Drilled) else done}
    except Stopped:
        return {"stopped": True}
    except (TargetFailed, ProgramMissing, RunEnded) as error:
        text, kind = str(error), "failed here"
    except (StorageFailed, ManifestDamaged, Busy) as error:
        text, kind = str(error), "failed"
    except ValueError as error:
        text, kind = str(error), "refused"
    except OSError as error:
        text, kind = f"{error.filename or 'the target'}: {error.strerror or error}", "failed here"
    return {kind: redacted(text, secrets)}


def _say_step(step: Step) -> None:
    say({"step": asdict(step)})


def main() -> None:
    Stop.listen()
    say({"answer": answer(received())})
