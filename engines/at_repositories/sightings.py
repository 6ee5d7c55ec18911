"""A look at a repository: is it in its place, and are these points there? Points are looked for by the exact
names of their manifests, since a listing would visit the folder of each assignment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engines.at_repositories.probing import ANOTHERS, IMPATIENT
from engines.at_repositories.work import Stop
from engines.limits import InTime
from external.processes.programs import ProgramMissing
from storage import layout
from storage.places import identity
from storage.places.directories import missing
from storage.places.identity import Identity
from storage.places.location import Location
from storage.places.locks import Busy
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.recover.instructions import LOST
from storage.restic.program import ResticFailed
from storage.restic.snapshots import repository_of
from storage.restic.store import ResticStore
from storage.restic.verdicts import ResticTrouble
from storage.stores import store_of

NOT_THERE = (ResticTrouble.NO_REPOSITORY, ResticTrouble.WRONG_KEY)


def look_for(
    location: dict[str, Any], ours: dict[str, Any], made: bool, wanted: Mapping[str, Sequence[str]], seconds: float
) -> dict[str, Any]:
    """Look for points, for at most `seconds`. `ours`: the `Identity` of the repository; `made`: True if it was found
    there before; `wanted`: folder of an assignment → names of its points.

    Returns `missing`: pairs of folder and point; or `away`: the reason why the repository is not there; or `silent`:
    the reason why neither is known. Raises: StorageStopped.
    """
    where = Location.of_json(location)
    if where.directory and (reason := missing(str(where.directory))):
        return {"away": reason}
    where = replace(where, environment={**where.environment, **IMPATIENT})
    paths = {layout.manifest_path(folder, name): [folder, name] for folder, names in wanted.items() for name in names}
    in_time = InTime(Stop(where.directory), seconds)
    try:
        store = store_of(where, in_time)
        if why := _not_ours(store, Identity(**ours), made):
            return {"away": why}
        there = store.present(paths)
    except StorageStopped:
        if in_time.is_stopped:
            raise
        return {"silent": f"{where.outside} has not answered within {seconds:g} s"}
    except ResticFailed as error:
        return {"away" if error.trouble in NOT_THERE else "silent": str(error)}
    except (StorageFailed, Busy, ProgramMissing, OSError) as error:
        return {"silent": str(error)}
    return {"missing": [each for path, each in paths.items() if path not in there]}


def _not_ours(store: Store, ours: Identity, made: bool) -> str:
    """The reason why the repository that answers is not the expected one; empty if it is. Raises: the exceptions
    of the store.
    """
    location = store.location
    if not location.keeps_files:
        whose = repository_of(store.restic) if isinstance(store, ResticStore) else None
        lost = f"the repository at {location.outside} does not name its installation" if made else ""
        return lost if whose is None else ANOTHERS if whose != ours.id else ""
    try:
        if (found := identity.read(replace(store, location=location.bare))) is None:
            return LOST.format(location.outside) if made else ""
        identity.check(found, ours)
    except identity.UnreadableIdentity:  # damaged: the points say more
        return ""
    except identity.RepositoryRefused as error:
        return str(error)
    return ""
