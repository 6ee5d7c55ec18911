"""Reads what an assignment has in a repository, part by part, and compares it with its manifests.

A round goes through the newest point, whose files lie in `current` for the most part, and then through each older one,
of which only that is read that no later point has read: what lies in `versions` between the two. So every file is read
once a round. Where a round is: the part (`current` or the name of a point), and the last path that was read of it. What
moves meanwhile, as by retention, is read in the next round.

A file without a digest in its manifest (encrypted, or on a remote) gets the one that was read, and is compared then.

What is damaged is mended as far as its content is to be had elsewhere:

* in `current`: it is given another time, so that the next backup takes it for changed, and fetches it again. What is
  there goes to `versions` as ever: one bit that fell is not the whole file, and nothing is deleted by a machine.
* in `versions`: where the next later copy of the path has the content that was lost, the damaged one is deleted, and
  that copy stands in for it.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from storage import layout
from storage.points import manifests, runs
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.store import Store

RCLONE = "rclone"
BATCH_FILES, BATCH_BYTES = 2000, 256 * 2**20
"""Read between two looks at how much is left to do."""
LEAST_BYTES = 256 * 2**20
"""Of a run, so that what is small is read at once."""
MOST_DAMAGED = 100
"""That are listed, and read again by each run. With more, the disk is to be replaced."""
GONE = "it is not in the repository any more, and nothing here has removed it"
"""Of a point."""
OTHER_TIME = "2000-01-01T00:00:00"


@dataclass(frozen=True)
class Damage:
    """A file of a point that is not what its manifest says. `place`: the folder in that of its assignment;
    `repository`: its id."""

    point: str
    path: str
    place: str
    why: str
    repository: int | None = None


def of_manifest(point: str, why: str, repository: int | None = None) -> Damage:
    """A point whose manifest cannot be read, or is not there."""
    return Damage(point, f"{layout.MANIFESTS}/{point}", layout.MANIFESTS, why, repository)


@dataclass
class Checked:
    """What a run has read, and where the next one begins: both empty: with a new round. `total`: bytes of the round.

    `damaged`: all that is known to be, also from earlier runs. `mended`: paths. `digests`: point → that of its
    manifest, which this run has written again.
    """

    part: str
    after: str
    total: int
    files: int = 0
    size: int = 0
    filled: int = 0
    damaged: list[Damage] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)


def check(
    store: Store,
    folder: str,
    *,
    part: str,
    after: str,
    total: int,
    share: float,
    known: Sequence[Damage] = (),
    on_progress: Callable[[int, int], None] = lambda files, size: None,
) -> Checked:
    """Read on for `share` of the bytes of a round (0: nothing), and what is known to be damaged before that.

    Raises: StorageFailed, Stopped, ProgramMissing, OSError.
    """
    if share and not part:
        total = store.size(folder)
    work = _Check(store, folder, max(LEAST_BYTES, int(total * share)), Checked(part, after, total), on_progress)
    with tempfile.TemporaryDirectory() as scratch:
        work.scratch = Path(scratch)
        work.again(known)
        if share:
            work.read_on()
    return work.done


@dataclass
class _Check:
    store: Store
    folder: str
    budget: int
    done: Checked
    on_progress: Callable[[int, int], None]
    scratch: Path = field(default_factory=Path)
    newest: str | None = None
    changed: set[str] = field(default_factory=set)

    def again(self, known: Sequence[Damage]) -> None:
        """What was damaged may have been fetched again, restored by a person, or removed with its point."""
        points = runs.points(self.store, self.folder)
        self.newest = points[-1] if points else None
        for damage in known:
            if damage.point in points:
                try:
                    manifest = self._manifest(damage.point)
                    entries = manifests.read(manifest) if manifest else ()
                    found = [each for each in entries if each.path == damage.path]
                except ManifestDamaged as error:
                    self._note_manifest(damage.point, error)
                    continue
                for entry in found:
                    place, digest, problem = self._find(damage.point, entry)
                    problem = problem or self._wrong_sizes(place, [entry] if digest else []).get(entry.stored_path)
                    self._judge(damage.point, entry, place, digest, problem)
        self._touch()

    def read_on(self) -> None:
        points = runs.points(self.store, self.folder)[::-1]
        for number, point in enumerate(points):
            name = point if number else layout.CURRENT
            started = self.done.part in ("", layout.CURRENT) or (number and not layout.is_later(point, self.done.part))
            if not started:
                continue
            after = self.done.after if name == self.done.part else ""
            if not self._read_part(name, point, points[number - 1] if number else None, after):
                return
            self.done.part, self.done.after = (points[number + 1], "") if points[number + 1 :] else ("", "")
        self.done.part = self.done.after = ""

    def _read_part(self, name: str, point: str, later: str | None, after: str) -> bool:
        """Returns whether it was read to its end."""
        filled: dict[str, str] = {}
        is_whole = True
        try:
            if (manifest := self._manifest(point)) is None:  # retention has removed it
                return True
            for batch in self._batches(manifest, point, later, after):
                self._read(point, batch, filled)
                self.done.part, self.done.after = name, batch[-1][0].path
                if self.done.size >= self.budget:
                    is_whole = False
                    break
            if filled:
                self._fill(point, manifest, filled)
        except ManifestDamaged as error:
            self._note_manifest(point, error)
        (self.scratch / point).unlink(missing_ok=True)
        return is_whole

    def _batches(self, manifest: Path, point: str, later: str | None, after: str) -> Iterator[list[tuple[Entry, str]]]:
        """The files to read, each with its place, sorted by path, from behind `after` on."""
        batch: list[tuple[Entry, str]] = []
        size = 0
        place_of = self._places(manifest, point, later)
        for entry in manifests.read(manifest):
            if entry.kind != "file" or entry.path <= after or not (place := place_of(entry.stored_path)):
                continue
            batch.append((entry, place))
            size += entry.size
            if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _places(self, manifest: Path, point: str, later: str | None) -> Callable[[str], str | None]:
        """Path → the folder to read it in; None: it lies where the later point has it, and was read for that."""
        if manifests.read_header(manifest).engine != RCLONE:
            return lambda path: f"{layout.POINTS}/{point}"
        found = self._runs_after(point)
        between = [run for run in found if later is None or not layout.is_later(run, later)]
        held = {run: self.store.sizes(f"{self.folder}/{layout.VERSIONS}/{run}").keys() for run in between}
        otherwise = layout.CURRENT if later is None else None

        def place_of(path: str) -> str | None:
            return next((f"{layout.VERSIONS}/{run}" for run in between if path in held[run]), otherwise)

        return place_of

    def _runs_after(self, point: str) -> list[str]:
        names = self.store.names(f"{self.folder}/{layout.VERSIONS}", folders=True)
        return layout.later_runs(point, names)

    def _read(self, point: str, batch: list[tuple[Entry, str]], filled: dict[str, str]) -> None:
        by_place: dict[str, list[Entry]] = defaultdict(list)
        for entry, place in batch:
            by_place[place].append(entry)
        for place, entries in by_place.items():
            digests, problems = self.store.read(f"{self.folder}/{place}", [each.stored_path for each in entries])
            problems |= self._wrong_sizes(place, [each for each in entries if each.stored_path in digests])
            for entry in entries:
                path = entry.stored_path
                if self._judge(point, entry, place, digests.get(path), problems.get(path)):
                    filled[entry.path] = digests[path]
        self._touch()
        self.done.files += len(batch)
        self.done.size += sum(entry.size for entry, _ in batch)
        self.on_progress(self.done.files, self.done.size)

    def _wrong_sizes(self, place: str, entries: list[Entry]) -> dict[str, str]:
        """Of those without a digest, which the one that was read would otherwise speak for: path → what is wrong."""
        wanted = {each.stored_path: each.size for each in entries if each.digest is None}
        found = self.store.sizes(f"{self.folder}/{place}", wanted) if wanted else {}
        return {
            path: f"it has {size:,} bytes, and {wanted[path]:,} were written"
            for path, size in found.items()
            if size != wanted[path]
        }

    def _judge(self, point: str, entry: Entry, place: str, digest: str | None, problem: str | None) -> bool:
        """Note it, or mend it, when it is damaged. Returns whether its digest is new to the manifest."""
        if problem is None and digest is not None:
            if entry.digest is None:
                return True
            if digest == entry.digest:
                return False
            problem = f"its content has changed: SHA-256 {digest}, and {entry.digest} was written"
        elif problem is None:
            problem = "it is missing"
        if self._mend(point, entry, place, is_there=digest is not None or problem != "it is missing"):
            self.done.mended.append(entry.path)
        else:
            self._note(point, entry.path, place, problem)
        return False

    def _mend(self, point: str, entry: Entry, place: str, *, is_there: bool) -> bool:
        """Returns whether it is as it was. What only the next backup can mend is prepared for that."""
        if place == layout.CURRENT:
            # without times there, the next backup goes by the manifest, and would see no change
            if is_there and point == self.newest and self.store.location.sees_changes:
                self.changed.add(entry.stored_path)
            return False
        if not place.startswith(layout.VERSIONS) or entry.digest is None:
            return False
        _, digest, _ = self._find(place.partition("/")[2], entry)
        if digest != entry.digest:
            return False
        self.store.delete(f"{self.folder}/{place}", [entry.stored_path])
        return True

    def _touch(self) -> None:
        self.store.touch(f"{self.folder}/{layout.CURRENT}", self.changed, OTHER_TIME)
        self.changed = set()

    def _find(self, point: str, entry: Entry) -> tuple[str, str | None, str | None]:
        """Where a file of a point (or as of a run) lies, with the digest that is read, or why it cannot be read."""
        engine = RCLONE
        with suppress(ManifestDamaged):  # of a run that is none of ours
            engine = manifests.read_header(found).engine if (found := self._manifest(point)) else RCLONE
        if engine != RCLONE:
            places = [f"{layout.POINTS}/{point}"]
        else:
            places = [*(f"{layout.VERSIONS}/{run}" for run in self._runs_after(point)), layout.CURRENT]
        path = entry.stored_path
        for place in places:
            digests, problems = self.store.read(f"{self.folder}/{place}", [path])
            if path in digests or path in problems:
                return place, digests.get(path), problems.get(path)
        return places[-1], None, None

    def _fill(self, point: str, manifest: Path, filled: dict[str, str]) -> None:
        """Write the manifest anew with these digests."""
        entries = (
            each.with_digest(filled[each.path], "check") if each.path in filled else each
            for each in manifests.read(manifest)
        )
        header = manifests.read_header(manifest)
        if digest := runs.write_point(self.store, self.folder, point, header, entries, again=True)[1]:
            self.done.filled += len(filled)
            self.done.digests[point] = digest

    def _manifest(self, point: str) -> Path | None:
        file = self.scratch / point
        if not file.exists() and not self.store.manifest(self.folder, point, file):
            return None
        return file

    def _note_manifest(self, point: str, error: ManifestDamaged) -> None:
        self._note(point, f"{layout.MANIFESTS}/{point}", layout.MANIFESTS, str(error))

    def _note(self, point: str, path: str, place: str, why: str) -> None:
        found = [each for each in self.done.damaged if (each.point, each.path) != (point, path)]
        self.done.damaged = [*found, Damage(point, path, place, why)][:MOST_DAMAGED]
