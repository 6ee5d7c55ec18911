"""Removes, checks and copies the points of an assignment, by orders of `repository_process.py`. Each function raises
what `work.at_work` raises; `owner`: the identity of its repository, see there.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from engines.at_repositories.confinement import explained
from engines.at_repositories.work import Stop, at_work, check_there, say_files
from engines.base import RunEnded
from engines.limits import Space, room_of
from engines.rclone.options import option_environment
from engines.restic.options import rate_arguments
from storage import layout
from storage.places import remotes
from storage.places.identity import Identity
from storage.places.location import RESTIC, Location
from storage.places.locks import locked
from storage.points import checking, copying, lost_results, removal, runs
from storage.points.checking import CheckResult, Damage
from storage.points.copies import CopyResult, remove_pieces
from storage.points.known import FOREIGN, Known
from storage.points.manifests import ManifestDamaged
from storage.points.store import StorageFailed, Store
from storage.recover import instructions
from storage.restic import copying as restic_copying
from storage.restic import upkeep
from storage.restic.copying import PACK_BYTES
from storage.restic.program import Restic
from storage.restic.snapshots import snapshots
from storage.restic.store import ResticStore
from storage.stores import store_of

MOST_FOREIGN = 20
"""The most foreign points that are named: anyone who can put points there can put any number."""
SLOWEST_PACK_SECONDS = 3_600.0
"""Seconds for one of restic's pack files, a few of which share a slow link at a time."""


def remove_points(
    location: dict[str, Any],
    folder: str,
    points: list[str],
    stay: list[str],
    lost: Collection[str] = (),
    known: Known | None = None,
    is_chained: bool = True,
    owner: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Remove points of an assignment; `stay`, `lost`, `is_chained`: see `removal.remove`. Returns
    `removal.RemovalResult` as a dictionary, and the points that are in neither list (`lost_results.unrecorded`). In a
    restic repository, `prune` removes the data that only they held.
    """

    def remove(store: Store) -> dict[str, Any]:
        if isinstance(store, ResticStore):
            removed = upkeep.remove_points(store.restic, folder, points, stay)
        else:
            how: dict[str, Any] = {"stay": stay, "lost": lost, "is_chained": is_chained}
            removed = removal.remove(store, folder, points, **how, on_progress=say_files)
        return asdict(removed) | {"unrecorded": lost_results.unrecorded(store, folder, {*points, *stay})}

    return at_work(location, folder, remove, known, owner)


def prune(location: dict[str, Any], folder: str) -> dict[str, Any]:
    """Delete the data that no snapshot of a restic repository holds. Returns its bytes as `freed`."""
    return at_work(
        location, folder, lambda store: {"freed": upkeep.pruned(Restic(store.location, store.stop, grace=store.grace))}
    )


def remove_folder(
    location: dict[str, Any], folder: str, ours: dict[str, Any], known: Known | None = None
) -> dict[str, Any]:
    """Remove everything that an assignment has in a repository (`removal.remove_all`), if its identity is `ours`: a
    mount point without its disk, or with another disk, does not have it. Returns the same as `remove_points`. Raises:
    StorageFailed if a point is not among the `known`; if `known` is None, foreign points are removed as well.
    """

    def remove(store: Store) -> dict[str, Any]:
        instructions.check_is_ours(store, Identity(**ours))
        if foreign := runs.foreign(store, folder):
            raise StorageFailed(
                f"point {foreign[0]} is foreign: {FOREIGN}. Its files are removed once a user has accepted "
                "it, or deletes the source with its files"
            )
        if isinstance(store, ResticStore):
            removed = upkeep.remove_all(store.restic, folder)
        else:
            removed = removal.remove_all(store, folder, on_progress=say_files)
        return asdict(removed) | {"unrecorded": []}

    return at_work(location, folder, remove, known)


def check_files(
    location: dict[str, Any],
    folder: str,
    known: list[dict[str, Any]],
    recorded: list[str],
    others: Mapping[str, list[str]] = MappingProxyType({}),
    known_points: Known | None = None,
    owner: dict[str, Any] | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """Read some of the data that an assignment has, and compare it. Returns `checking.CheckResult` as a dictionary,
    with foreign points and the `recorded` points that are missing listed as damaged; the points that are not recorded
    (`lost_results.unrecorded`); and as `lost` the recorded points of `others` that a restic repository lacks (both:
    folder → names). A check that was stopped in the middle returns what it has read, without a look at the points.
    """

    damage = [Damage(**each) for each in known]

    def check(store: Store) -> CheckResult:
        if isinstance(store, ResticStore):
            packs = [each for each in damage if each.place == RESTIC]
            return upkeep.check(store.restic, facts["part"], facts["share"], packs)
        return checking.check(store, folder, known=damage, on_progress=say_files, **facts)

    def compare(store: Store) -> dict[str, Any]:
        if (done := check(store)).is_stopped:
            return asdict(done) | {"unrecorded": [], "lost": {}}
        there = runs.points(store, folder)
        lost = [
            checking.of_manifest(each, checking.GONE)
            for each in sorted(set(recorded) - set(there), key=layout.order_of)
        ]
        foreign = [checking.of_manifest(each, FOREIGN) for each in runs.foreign(store, folder)[:MOST_FOREIGN]]
        done.damaged = [*lost, *done.damaged][: checking.MOST_DAMAGED - len(foreign)] + foreign
        found = set[tuple[str, str]]()
        if others and isinstance(store, ResticStore):
            found = {(each.assignment, each.point) for each in snapshots(store.restic)}
        lost_of = {each: [name for name in names if (each, name) not in found] for each, names in others.items()}
        return asdict(done) | {"unrecorded": lost_results.unrecorded(store, folder, recorded), "lost": lost_of}

    return at_work(location, folder, compare, known_points, owner)


def foreign_points(
    location: dict[str, Any], folder: str, known: Known, owner: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The `points` of an assignment that are not `known`, or have another manifest, as `runs.facts_of` describes them.
    Unreadable ones are left out, and so are those of restic, which are known by the ids of their snapshots.
    """

    def look(store: Store) -> dict[str, Any]:
        if isinstance(store, ResticStore):
            return {"points": []}
        found, whatever = list[dict[str, Any]](), replace(store, known=None)
        for point in runs.all_points(store, folder):
            with suppress(ManifestDamaged):
                [*facts] = runs.facts_of(whatever, folder, point)
                found += [each for each in facts if each["digest"] not in known.get(point, ())]
        return {"points": found}

    return at_work(location, folder, look, owner=owner)


def copy_points(
    location: dict[str, Any],
    folder: str,
    target: dict[str, Any],
    ours: dict[str, Any],
    made: bool,
    newest: str,
    again: list[str],
    damaged: dict[str, list[str]],
    bandwidth: str,
    zone: str,
    reserve: float,
    there: str = "",
    recorded: Collection[str] = (),
    known: Known | None = None,
    known_there: Known | None = None,
    owner: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Bring the points of an assignment into the repository at `target`, whose identity must be `ours`; if it is
    `made`, the identity must be there. Returns `copies.CopyResult` as a dictionary, or the `problem`, with the `room`
    that is left. `known`: the points of the first repository that are ours; `known_there`: those of the copy. `newest`,
    `damaged`, `recorded`: see `copying.copy`; `again`: see `restic_copying.copy`; `there`: the newest recorded point of
    the copy; the other parameters come from the policy.
    """
    place, whose = Location.of_json(target), Identity(**ours)
    check_there(place)
    space = Space(place.directory, reserve)

    def on_progress(files: int, size: int) -> None:
        space.check(size, "copies")
        say_files(files, size)

    def on_packs(packs: int) -> None:
        space.check(packs * PACK_BYTES, "copies")
        say_files(packs, 0)

    def bring(store: Store) -> dict[str, Any]:
        first, stop = store.location, Stop(store.location.directory, place.directory)
        second = store_of(place, stop, known=known_there)
        if not made:
            second.make(whose, like=first, must_be_like=True)  # it is read next
        instructions.keep_current(second, whose, made=made, folder=folder, newest=there)
        with locked(place, folder) as lock:
            if isinstance(store, ResticStore):
                space.check_before()
                rate = rate_arguments(bandwidth, "upload", "download")
                to = Restic(place, stop, SLOWEST_PACK_SECONDS, store.grace, second=first)
                which: dict[str, Any] = {"newest": newest, "again": again, "known": known}
                copied = restic_copying.copy(
                    Restic(first, stop), to, folder, **which, options=rate, on_progress=on_packs
                )
                return copied.as_json
            return bring_files(store, (*store.inherited, *lock), stop).as_json

    def bring_files(store: Store, inherited: tuple[int, ...], stop: Stop) -> CopyResult:
        options, there = {"bwlimit": bandwidth} if bandwidth else {}, remotes.beside(place)
        # in the environment, so that whatever is read to be compared counts as well
        limit = option_environment(options, zone) | ({"RCLONE_BWLIMIT": bandwidth} if bandwidth else {})
        first, there = (replace(each, environment={**each.environment, **limit}) for each in (store.location, there))
        source = replace(store, location=first, beside=there, stop=stop, inherited=inherited)
        copy = replace(store, location=there, stop=stop, inherited=inherited, known=known_there)
        if space.lack():  # the disk may be full because of the pieces that a killed copy left
            folders = copy.names(layout.files_path(folder), folders=True)
            remove_pieces(copy, folder, runs.points(copy, folder), folders)
        space.check_before()
        what: dict[str, Any] = {"newest": newest, "damaged": damaged, "recorded": recorded}
        return copying.copy(source, copy, folder, **what, on_progress=on_progress)

    try:
        answer = at_work(location, folder, bring, known, owner)
    except (RunEnded, ValueError, StorageFailed) as error:
        answer = {"problem": explained(str(error), place)}  # it is raised once the room is noted
    return answer | {"room": room_of(place.directory)}
