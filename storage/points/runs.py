"""One run of an engine in the folder of its assignment: the state that it finds, and the point that it leaves.

`begin` names the run. `mark` records the files that it is about to bring, in `manifests/<run>.unfinished`, which is
made like a manifest; `write_point` comes last and makes the point; `end` removes the mark. So the mark of a run without
a point shows which files a killed run may have left in `files/<run>`: the next one takes over the whole ones, and
removes nothing except the remains of a dump.

Credentials that may neither delete nor overwrite are enough: a mark that cannot be removed stays, and means nothing
once the point exists.
"""

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from storage import layout
from storage.points import known, manifests, own_names
from storage.points.manifests import Entry, Header, Line, Totals
from storage.points.moving import LostContent, check_inside
from storage.points.reading import MANIFEST
from storage.points.store import StorageFailed, Store

BOOT = Path("/proc/sys/kernel/random/boot_id")
FLUSHED = ".flushed"
"""The ending of a file next to a mark: the disk has everything that the run brought before it ended. On a server: no
rclone of the run was killed, so everything that arrived altered is deleted or noted (`amiss.py`).
"""


@dataclass(frozen=True)
class BegunRun:
    """A run under way. `name`: the name of the run and of its point; `base`: the point before it (None if it is the
    first). `lost`: a later point that has a row and is missing; empty if there is none. `left`: the runs since the
    later of these two that made no point, the latest first; `marks`: all that had a mark; `there`: all points,
    including foreign ones.
    """

    name: str
    base: str | None
    left: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    lost: str = ""
    there: frozenset[str] = frozenset()


OTHER = "if there is a clone of this installation, give it another repository"


class BaseGone(StorageFailed):
    """The point before a run is gone."""


class Overtaken(StorageFailed):
    """Another run has come since a run began, and may have deleted its files."""


class AllRemoved(Overtaken):
    """Everything of an assignment has been removed since a run began."""


def points(store: Store, folder: str) -> list[str]:
    """The names of an assignment's points, the earliest first, without foreign ones."""
    return store.ours(all_points(store, folder))


def all_points(store: Store, folder: str) -> list[str]:
    """The same names, including foreign points."""
    return points_among(store.names(f"{folder}/{layout.MANIFESTS}"))


def foreign(store: Store, folder: str) -> list[str]:
    """The names of points that the database does not know, the earliest first; a known one may be foreign, too."""
    found = all_points(store, folder)
    ours = set(store.ours(found))
    return [each for each in found if each not in ours]


def points_among(files: Iterable[str]) -> list[str]:
    """The names of the points whose manifests are among these files, the earliest first."""
    return named_among(files, layout.MANIFEST_ENDING)


def named_among(files: Iterable[str], ending: str) -> list[str]:
    """The names of the runs whose files with that ending are among these, the earliest first."""
    return layout.by_time({each.removesuffix(ending) for each in files if each.endswith(ending)})


def runs_with_files(store: Store, folder: str) -> set[str]:
    """The names of all runs whose files are there."""
    names = store.names(layout.files_path(folder), folders=True)
    found = {layout.run_of(each) for each in names if layout.FOLDER.fullmatch(each)}
    return set(layout.by_time(found))


def begin(store: Store, folder: str, started_at: datetime, recorded: str = "") -> BegunRun:
    """Name a run: later than all before it, whatever the clock shows. `recorded`: the newest point according to the
    database. If that point is lost, the run takes over nothing: the points that name a file follow one another, also
    once it is put back.
    """
    check_inside(store.location, folder)
    files = store.names(f"{folder}/{layout.MANIFESTS}")
    there, marks = points_among(files), named_among(files, layout.UNFINISHED)
    before = known.taken({*there, *marks, *runs_with_files(store, folder)}, store.known, started_at)
    newest = next(iter(store.ours(there[::-1])), None)
    is_lost = recorded and recorded not in there and (newest is None or layout.is_later(recorded, newest))
    lost = recorded if is_lost else ""
    since = lost or newest
    left = [each for each in marks if each not in there and (since is None or layout.is_later(each, since))]
    named = layout.name_of(started_at, [*before, *([recorded] if recorded else [])])
    return BegunRun(named, newest, tuple(left[::-1]), frozenset(marks), lost, frozenset(there))


def mark(
    store: Store, folder: str, run: str, header: Header, entries: Iterable[Entry] = (), *, again: bool = False
) -> None:
    """Record the files that a run is about to bring, sorted by path, before it does. `again`: it has a mark already.
    Raises: BaseGone if another run has begun under this name in the meantime, such as that of a cloned installation in
    the same second: neither lock nor lease is between them on a remote.
    """
    if not again and store.location.directory is None:
        ends = layout.UNFINISHED, layout.MANIFEST_ENDING
        if {run + each for each in ends}.intersection(store.names(f"{folder}/{layout.MANIFESTS}")):
            raise BaseGone(f"another run of {folder} has begun as {run} in the meantime: {OTHER}")
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / run
        manifests.write(file, header, entries)
        known.keep(store.known, f"{run}{known.OF_A_MARK}", known.digest_of(file))
        (store.put_over if again else store.put)(file, mark_path(folder, run))


def mark_path(folder: str, run: str) -> str:
    return f"{folder}/{layout.MANIFESTS}/{run}{layout.UNFINISHED}"


@contextmanager
def marked(store: Store, folder: str, run: str) -> Iterator[tuple[Header, Callable[[], Iterator[Entry]]] | None]:
    """The header of a run's mark, and a reader of the files that it was about to bring. None if the mark cannot be
    read.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / run
        found = None
        with suppress(manifests.ManifestDamaged, LostContent):
            if store.fetch(mark_path(folder, run), file, MANIFEST):
                known.compare(file, f"{run}{known.OF_A_MARK}", store.known)
                for _ in manifests.read(file):
                    store.check_stop()
                found = manifests.read_header(file), partial(manifests.read, file)
        yield found


def note_flushed(store: Store, folder: str, run: str) -> None:
    """Wait until this host's disk has the files of a run that makes no point, and note that: they count after a power
    cut. On a server, note that none of these files is in doubt.
    """
    with tempfile.NamedTemporaryFile() as nothing:
        store.put_last(Path(nothing.name), f"{folder}/{layout.MANIFESTS}/{run}{FLUSHED}")


def boot() -> str:
    """The name of the time since this host was started. Empty if it is not known."""
    with suppress(OSError):
        return BOOT.read_text().strip()
    return ""


def check_base(store: Store, folder: str, begun: BegunRun, *, is_marked: bool = True, is_made: bool = False) -> None:
    """Check the base of a run, right before it makes its point, or once it has (`is_made`). `is_marked`: False if it
    brings nothing, and so has no mark. Raises: BaseGone if the point that it took over from is gone; Overtaken if
    another run has come in the meantime, while this run's machine was frozen, or from another installation: that run
    may have deleted files of this one as the remains of a killed run; AllRemoved if, on a remote, its mark has gone;
    StorageFailed.
    """
    files = store.names(f"{folder}/{layout.MANIFESTS}")
    points, marks = points_among(files), named_among(files, layout.UNFINISHED)
    there = [each for each in points if not (is_made and each == begun.name)]
    has_later_run = any(layout.is_later(each, begun.name) for each in set(marks) - begun.marks)
    has_new_point = not begun.there.union([begun.lost]).issuperset(there)
    is_base_gone = begun.base is not None and begun.base not in there
    if has_later_run or (has_new_point and not is_base_gone):
        raise Overtaken(f"another run has taken over {folder} in the meantime; this one ends without a point: {OTHER}")
    written = [layout.manifest_path(folder, begun.name)] if is_made else []
    check_written(store, folder, [*written, *([mark_path(folder, begun.name)] if is_marked else [])], files)
    if is_base_gone:
        raise BaseGone(f"point {begun.base} of {folder} was removed in the meantime")


def check_written(store: Store, folder: str, written: Collection[str], names: Collection[str]) -> None:
    """Check, on a remote, that the files which a run has `written` next to the manifests, whose `names` were listed,
    are still there. What is not listed is looked up by its name, since a server may take a moment until it lists a new
    file. Raises: AllRemoved; StorageFailed.
    """
    unlisted = {each for each in written if each.rpartition("/")[2] not in names}
    if unlisted and store.location.directory is None and store.present(unlisted) != unlisted:
        raise AllRemoved(f"what {folder} has in the repository was removed in the meantime; this run ends: {OTHER}")


def check_made(store: Store, folder: str, begun: BegunRun, *, is_marked: bool = True, has_base: bool = True) -> None:
    """Check once more, on a remote, after a run has made its point: between the last look and the manifest its base may
    have gone, with files that both name. Then the point goes again. A removal looks for new points only after it has
    removed the old ones, so one of the two sees the other. `has_base`: False if the run takes over nothing. Raises: as
    `check_base`.
    """
    if store.location.directory is not None:  # its lock excludes all others
        return
    try:
        check_base(store, folder, begun, is_marked=is_marked, is_made=True)
    except (BaseGone, Overtaken) as error:
        if has_base or isinstance(error, Overtaken):
            store.remove(layout.manifest_path(folder, begun.name))
            raise


def check_nothing_came(store: Store, folder: str) -> None:
    """Check, on a remote, that no run has begun since everything was removed. Raises: Overtaken; StorageFailed."""
    if store.location.directory is None and store.names(f"{folder}/{layout.MANIFESTS}"):
        raise Overtaken(f"a run of {folder} has begun while everything of it was removed; the rest goes later: {OTHER}")


def end(store: Store, folder: str, run: str) -> None:
    """Remove the run's mark, as far as these credentials may: it has made its point."""
    for ending in (layout.UNFINISHED, FLUSHED):
        with suppress(StorageFailed):
            store.remove(f"{folder}/{layout.MANIFESTS}/{run}{ending}")


def facts_of(store: Store, folder: str, point: str) -> list[dict[str, Any]]:
    """The facts of a point in a list of one, or an empty list if it is missing: `name`, the `digest` of its manifest,
    and from the manifest `files`, `size`, `complete`, `engine` and `ended_at`. Without known points also `not_of`: a
    sentence if the manifest was written for another point. Raises: ManifestDamaged.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / point
        read = store.any_manifest if store.known is None else store.manifest
        if not read(folder, point, file):
            return []
        header, files, size = manifests.read_header(file), 0, 0
        for each in manifests.read(file):
            if each.kind != "folder" and each.is_kept:
                files, size = files + 1, size + each.size
        facts = {"name": point, "digest": known.digest_of(file), "files": files, "size": size}
        facts |= {"complete": header.complete, "engine": header.engine, "ended_at": header.ended_at}
        return [facts if store.known is not None else facts | {"not_of": own_names.not_of(file, point)}]


def write_point(
    store: Store, folder: str, point: str, header: Header, entries: Iterable[Entry | Line], *, again: bool = False
) -> tuple[Totals, str]:
    """Write the manifest of a point, and so make it. `entries` are sorted by path. `again`: it exists already; if the
    database does not keep the digest of the new manifest, the old one stays. Returns its totals and its digest, which
    is empty if the old one stayed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / point
        totals = manifests.write(file, header, entries)
        digest = known.digest_of(file)
        if not known.keep(store.known, point, digest) and again:
            return totals, ""
        store.put_last(file, layout.manifest_path(folder, point), is_over=again)
    return totals, digest
