"""The process in which a worker looks into a repository, and restores (`external.processes.orders`): it can be ended,
since a dead share holds it forever. Without Django.
"""

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from engines.at_repositories.work import Stop, check_there
from engines.base import RunEnded, SourceSpec
from engines.restores import drilling, to_source
from engines.restores.drilling import DATABASES, DrillResult
from engines.restores.scratch import Scratch
from engines.restores.terms import Terms
from external.processes.programs import ProgramMissing
from external.processes.serving import Program, say, serve
from storage.places.identity import Identity
from storage.places.location import Location
from storage.places.locks import Busy
from storage.points import runs
from storage.points.known import Known
from storage.points.manifests import ManifestDamaged
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.points.trees import NotThere, opened, versions_of
from storage.recover.instructions import check_place
from storage.restoring import into_folder
from storage.restoring.base import Report, RestoreProgress, RestoreRefused, TargetFailed, Wish
from storage.stores import store_of


def at_store(do: Callable[..., Any]) -> Callable[..., Any]:
    """Give an order the store of a repository, whose `known` points it may take (None if any), in place of the
    repository's location, and its other facts as objects. `owner`: the identity of the repository, None if it may have
    none: a point is only said to be gone from the expected one, opened with its key.
    """

    @wraps(do)
    def work(location: dict[str, Any], known: Known | None, owner: dict[str, Any] | None = None, **facts: Any) -> Any:
        where = Location.of_json(location)
        check_there(where)
        facts |= {"cache": Path(facts["cache"])} if "cache" in facts else {}
        facts |= {"source": SourceSpec(**facts["source"])} if facts.get("source") else {}
        if wish := facts.get("wish"):
            facts["wish"] = Wish(**wish | {"target": Path(wish["target"]), "paths": tuple(wish["paths"])})
        store = store_of(where, Stop(where.directory), known=known)
        try:
            found = _done(do, store, owner, facts)
        except (ProgramMissing, RunEnded) as error:
            raise TargetFailed(str(error)) from error
        except (ManifestDamaged, Busy) as error:
            raise StorageFailed(str(error)) from error
        except OSError as error:
            raise TargetFailed(f"{error.filename or 'the target'}: {error.strerror or error}") from error
        except ValueError as error:
            raise RestoreRefused(str(error)) from error
        return asdict(found) if is_dataclass(found) and not isinstance(found, type) else found

    return work


def _done(do: Callable[..., Any], store: Store, owner: dict[str, Any] | None, facts: dict[str, Any]) -> Any:
    try:
        return do(store, **facts)
    except NotThere:
        if owner:
            folder = facts["wish"].assignment if "wish" in facts else facts["assignment"]
            check_place(store, Identity(**owner), folder)
        raise


@at_store
def points(store: Store, folder: str, expected: dict[str, Any] | None) -> dict[str, list[str]]:
    """The points of an assignment that are ours, and foreign ones. `expected`: its repository's identity, None if it
    may have none. Raises: StorageFailed, also for a place that has no points and is not that repository, such as a
    mount point without its disk, or is opened with another key.
    """
    there = runs.all_points(store, folder)
    found = store.ours(there)
    if not found and expected:
        check_place(store, Identity(**expected), folder)
    return {"ours": found, "foreign": [each for each in there if each not in {*found}]}


@at_store
def index(store: Store, assignment: str, point: str, cache: Path) -> None:
    """Put the tree of a point into the cache."""
    with opened(store, assignment, point, cache):
        pass


@at_store
def restore(store: Store, wish: Wish, cache: Path) -> Report:
    """Restore into a folder on this host."""
    return into_folder.restore_to_stay(wish, store, cache, _say_step)


@at_store
def fetch(store: Store, wish: Wish, cache: Path) -> Report:
    """Restore into scratch space."""
    return into_folder.restore(wish, store, cache, _say_step)


@at_store
def put_back(store: Store, wish: Wish, cache: Path, source: SourceSpec) -> Report:
    """Restore to the source."""
    return to_source.put_back(wish, store, source, cache, _say_step)


@at_store
def create_database(
    store: Store,
    wish: Wish,
    cache: Path,
    source: SourceSpec,
    loader: dict[str, Any] | None = None,
    terms: dict[str, Any] | None = None,
) -> Report:
    """Restore a dump as a new database. `loader`: the account and programs that load it; None if the worker does.
    `terms`: what a user has allowed.
    """
    as_whom, allowed = Scratch(**loader) if loader else None, Terms(**terms or {})
    report: Report = DATABASES[source.kind].create(wish, store, source, cache, _say_step, as_whom, allowed)
    return report


@at_store
def drill(store: Store, assignment: str, scratch: dict[str, Any], newest: str, source_kind: str) -> DrillResult:
    """Restore the newest point into scratch space, and compare."""
    return drilling.drill(store, assignment, Scratch(**scratch), _say_step, newest, source_kind)


versions = at_store(versions_of)


def _say_step(step: RestoreProgress) -> None:
    say({"step": asdict(step)})


_NAMES = ("points", "index", "versions", "restore", "fetch", "put_back", "create_database", "drill")
PROGRAM = Program(
    __name__,
    dict.fromkeys(_NAMES, __name__),
    {"failed here": TargetFailed, "refused": RestoreRefused, "stopped": StorageStopped, "failed": StorageFailed},
)


def main() -> None:
    Stop.listen()
    serve(PROGRAM)
