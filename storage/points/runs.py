"""One run of an engine in the folder of its assignment: what it finds, and the point that it leaves.

`begin` names the run and writes its mark, `manifests/<run>.unfinished`; `end` removes it. A mark that `begin` finds is
of a run that was killed, and what it left is healed, or removed if it was a dump, unless its point was made. An rclone
run moves a file to `versions` *before* it fetches the new one, so a run that ended badly leaves holes in `current`, and
pieces of files. `heal` removes these, and moves back what `current` lacks. No point depends on that, since a file of an
earlier point is found in either place (`storage.layout`); but what the next run cannot read would be missing from its
point.

`write_point` comes last and makes the point. A run that is killed before leaves none.
"""

import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from storage import layout
from storage.points import known, manifests
from storage.points.manifests import Changes, Entry, Header, Pair, Totals
from storage.points.store import PARTIAL_SUFFIX, StorageFailed, Store

UNFINISHED = ".unfinished"
PIECES = f"--include=*.{{{{[0-9a-f]{{8}}}}}}{PARTIAL_SUFFIX}"
"""rclone's filter for the names that it gives to pieces of files: a source may have files that end alike."""


@dataclass(frozen=True)
class Begun:
    """A run under way. `name`: its own, and that of its point; `newest`: the point before it; None: it is the first."""

    name: str
    newest: str | None


def points(store: Store, folder: str) -> list[str]:
    """The names of an assignment's points, the first one first, without foreign ones."""
    return store.ours(all_points(store, folder))


def all_points(store: Store, folder: str) -> list[str]:
    """The same with foreign ones."""
    return points_among(store.names(f"{folder}/{layout.MANIFESTS}"))


def foreign(store: Store, folder: str) -> list[str]:
    """The names of points that our database does not know, the first one first; a known one may be foreign, too."""
    found = all_points(store, folder)
    ours = set(store.ours(found))
    return [each for each in found if each not in ours]


def points_among(files: Iterable[str]) -> list[str]:
    """The names of the points whose manifests are among these files, the first one first."""
    names = {each.removesuffix(layout.MANIFEST_ENDING) for each in files if each.endswith(layout.MANIFEST_ENDING)}
    return layout.by_time(names)


def begin(
    store: Store,
    folder: str,
    started_at: datetime,
    heal: Callable[[Store, str, str], object],
    runs_in: str = layout.VERSIONS,
) -> Begun:
    """Heal what a killed run left, by `heal`, which gets its name, and name this one: later than all before it, of
    which there are folders in `runs_in`, whatever the clock says."""
    files = store.names(f"{folder}/{layout.MANIFESTS}")
    there = points_among(files)
    killed = layout.by_time(mark.removesuffix(UNFINISHED) for mark in files if mark.endswith(UNFINISHED))
    for run in killed:
        # a file that the run deleted, back in `current` without being in its point, is lost to the earlier points when
        # versions are merged
        if run not in there:
            heal(store, folder, run)
        end(store, folder, run)
    left = layout.by_time(store.names(f"{folder}/{runs_in}", folders=True))
    before = known.taken({*there, *killed, *left}, store.known, started_at)
    begun = Begun(layout.name_of(started_at, before), next(iter(store.ours(there[::-1])), None))
    with tempfile.NamedTemporaryFile() as nothing:
        store.put(Path(nothing.name), f"{folder}/{layout.MANIFESTS}/{begun.name}{UNFINISHED}")
    return begun


def heal(store: Store, folder: str, run: str) -> list[str]:
    """Remove the pieces of files from `current`, and bring back what it lacks of what the run put into `versions`. What
    cannot go back, as when its name is a folder now, stays a version. Returns the paths of the pieces.

    On a remote, which nothing locks, the run's engine may go on for a moment, as on a machine that was frozen and
    wakes: it could write over what was moved back. So that is copied there, and an earlier point keeps it.
    """
    pieces = remove_pieces(store, folder)
    how = ("copy",) if store.location.directory is None else ("move", "--delete-empty-src-dirs")
    source, target = (store.location.at(f"{folder}/{each}") for each in (f"{layout.VERSIONS}/{run}", layout.CURRENT))
    with suppress(StorageFailed):
        store.run(*how, "--ignore-existing", source, target, missing_ok=True)
    return pieces


def remove_pieces(store: Store, folder: str) -> list[str]:
    """Remove what an interrupted rclone left in `current` of files that it was fetching, and files of the source that
    are called alike. Returns their paths."""
    current, found = f"{folder}/{layout.CURRENT}", list[str]()
    store.run(
        "lsf", "--recursive", "--files-only", PIECES, store.location.at(current), missing_ok=True, on_line=found.append
    )
    store.delete(current, found)
    return found


def check_it_goes_on(store: Store, folder: str, run: str) -> None:
    """Raises: StorageFailed for a run that another one has healed meanwhile, as its machine was frozen; not where a
    lock keeps that one out."""
    marks = f"{folder}/{layout.MANIFESTS}"
    if store.location.directory is None and f"{run}{UNFINISHED}" not in store.names(marks):
        raise StorageFailed(f"another run has taken over {folder} meanwhile; this one ends without a point")


def end(store: Store, folder: str, run: str) -> None:
    """Remove the run's mark: it has made its point, or was healed."""
    store.remove(f"{folder}/{layout.MANIFESTS}/{run}{UNFINISHED}")


def unrecorded(store: Store, folder: str, recorded: Collection[str]) -> list[dict[str, Any]]:
    """The points of an assignment that are ours and not among `recorded`, as of backups whose result was lost: as
    `facts_of`. Those that cannot be read are left out."""
    found = []
    for point in points(store, folder):
        if point not in recorded:
            with suppress(manifests.ManifestDamaged):
                found += facts_of(store, folder, point)
    return found


def facts_of(store: Store, folder: str, point: str) -> list[dict[str, Any]]:
    """What a point says of itself, none if it is not there: `name`, the `digest` of its manifest, and from that
    `files`, `size`, `complete`, `engine` and `ended_at`. Raises: ManifestDamaged."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / point
        if not store.manifest(folder, point, file):
            return []
        header, files, size = manifests.read_header(file), 0, 0
        for each in manifests.read(file):
            if each.kind != "folder":
                files, size = files + 1, size + each.size
        facts = {"name": point, "digest": known.digest_of(file), "files": files, "size": size}
        return [facts | {"complete": header.complete, "engine": header.engine, "ended_at": header.ended_at}]


def write_point(
    store: Store, folder: str, point: str, header: Header, entries: Iterable[Entry], *, again: bool = False
) -> tuple[Totals, str]:
    """Write the manifest of a point, and so make it. `entries` are sorted by path. `again`: it is there; where the
    database does not keep the digest of the new one, it stays as it was. Returns its totals and its digest; empty: it
    stayed."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / point
        totals = manifests.write(file, header, entries)
        digest = known.digest_of(file)
        if not known.keep(store.known, point, digest) and again:
            return totals, ""
        store.put_last(file, layout.manifest_path(folder, point))
    return totals, digest


def with_digests(
    entries: list[Entry], before: Iterable[Entry], digests_of: Callable[[list[str]], dict[str, str]], digest_from: str
) -> tuple[list[Entry], Changes]:
    """The entries with digests: those of unchanged files from the point before, the others from `digests_of`, which
    gets their paths. What it does not know stays without. All are sorted by path. And what has changed since then."""
    pairs: list[Pair] = []
    lacking: list[str] = []
    for old, entry in manifests.side_by_side(before, entries):
        if entry is not None:
            if old is not None and old.is_same(entry):
                # in place of the old one, which would need as much memory again
                old = entry = entry.with_digest(old.digest, "earlier") if old.digest else entry
            if entry.kind == "file" and not entry.digest:
                lacking.append(entry.path)
        pairs.append((old, entry))
    if digests := digests_of(lacking) if lacking else {}:
        pairs = [
            (old, entry.with_digest(digests[entry.path], digest_from) if entry and entry.path in digests else entry)
            for old, entry in pairs
        ]
    return [entry for _, entry in pairs if entry], manifests.compare(pairs)
