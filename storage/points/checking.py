"""Reads an assignment's files in a repository, part by part, and compares them with its manifests.

A round goes through the newest point, and then through each older one, where it reads only the files that the next
later point does not name. So every stored file is read once per round. The position of a round is its part (`newest`,
or the name of an older point) and the last path that was read there. `newest` is whichever point is the newest at the
time: files that came since the round began are read by the next round.

A file without a digest in its manifest (encrypted, or on a remote) gets the digest that was read, and is compared from
then on, as far as credentials allow replacing a manifest.

Nothing is repaired here, and only manifests are changed. Every damaged or missing file is named with all points that
hold it. The next backup counts it as changed (`BackupTask.damaged`), so the newest point is whole again; a copy fetches
it again from the first repository.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from storage import layout
from storage.points import known as known_points
from storage.points import manifests, runs
from storage.points.batches import batches
from storage.points.check_results import CheckResult
from storage.points.damage import GONE, MOST_DAMAGED, Damage, of_manifest
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.only_named import named_by_one_alone
from storage.points.store import StorageFailed, StorageStopped, Store

__all__ = ["GONE", "MOST_DAMAGED", "CheckResult", "Damage", "check", "of_manifest"]

NEWEST = "newest"
RCLONE = "rclone"
"""The engine whose points are files; a point of any other engine is one dump."""
BATCH_FILES, BATCH_BYTES = 2000, 256 * 2**20
"""The most that is read at a time: after that the progress is reported, and a run whose share is read ends."""
UNWRITTEN_BYTES = 8 * 2**30
"""Bytes that are read before their digests are written into the manifest."""
LEAST_BYTES = 256 * 2**20
"""The least bytes of a run, so that a small repository is read at once."""
MISSING = "it is missing"


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
) -> CheckResult:
    """Read further, for `share` of the bytes of a round (nothing if it is 0). Files that are known to be damaged are
    read first.

    Raises: StorageFailed, StorageStopped if it was stopped before it had read anything, ProgramMissing, OSError.
    """
    if share and not part:
        total = store.size(folder)
    points = runs.points(store, folder)[::-1]
    budget, done = max(LEAST_BYTES, int(total * share)), CheckResult(part, after, total)
    with tempfile.TemporaryDirectory() as scratch:
        work = _PointCheck(store, folder, points, budget, done, on_progress, Path(scratch))
        try:
            work.again(known)
            if share:
                work.read_on()
            work.find_oldest()
        except StorageStopped:
            if not done.files:
                raise
            done.stop(known)
    return done


@dataclass
class _PointCheck:
    """A check at work. `points`: the newest one first."""

    store: Store
    folder: str
    points: list[str]
    budget: int
    done: CheckResult
    on_progress: Callable[[int, int], None]
    scratch: Path

    def __post_init__(self) -> None:
        self.files = layout.files_path(self.folder)

    def again(self, known: Sequence[Damage]) -> None:
        """Read damaged files again: they may have been brought or restored since, or removed with their points."""
        by_point = defaultdict[str, list[Damage]](list)
        for damage in known:
            if holds := next((each for each in self.points if damage.touches(each)), None):
                by_point[holds].append(damage)
        for point, found in by_point.items():
            places = {each.place: each for each in found if each.place != layout.MANIFESTS}
            try:
                entries = self._held(point, places)
            except ManifestDamaged as error:
                self._note(of_manifest(point, str(error)))
                self.done.damaged += places.values()
                continue
            digests, problems = self._read_files(list(entries.values()))
            for place, entry in entries.items():
                if why := _problem(entry, digests.get(place), problems.get(place)):
                    self._note(replace(places[place], point=point, why=why))
                else:
                    self.done.mended.append(entry.path)

    def read_on(self) -> None:
        part = self.done.part if layout.NAME.fullmatch(self.done.part) else ""
        self.done.part = self.done.part or NEWEST
        for number, point in enumerate(self.points):
            name = point if number else NEWEST
            if part and (not number or layout.is_later(point, part)):
                continue
            after = self.done.after if name == self.done.part else ""
            if not self._read_part(name, number, after):
                return
            self._forget(number)
            self.done.part, self.done.after = (self.points[number + 1], "") if self.points[number + 1 :] else ("", "")
        self.done.part = self.done.after = ""

    def find_oldest(self) -> None:
        """Find the oldest point that holds each newly damaged file."""
        new = {each.place: each for each in self.done.damaged if not each.oldest and each.place != layout.MANIFESTS}
        oldest, asked = {place: each.point for place, each in new.items()}, set(new)
        for point in self.points:
            if here := {place for place in asked if layout.is_later(new[place].point, point)}:
                try:
                    held = set(self._held(point, here))
                except ManifestDamaged:
                    held = set()
                (self.scratch / point).unlink(missing_ok=True)
                oldest.update(dict.fromkeys(held, point))
                asked -= here - held
        self.done.damaged = [
            replace(each, oldest=oldest[each.place]) if each.place in oldest else each for each in self.done.damaged
        ]

    def _read_part(self, name: str, number: int, after: str) -> bool:
        """Returns True if the part was read to its end."""
        point, filled, written, unwritten = self.points[number], dict[str, str](), 0, 0
        try:
            if (manifest := self._manifest(point)) is None:  # retention has removed it
                return True
            header = manifests.read_header(manifest)
            alone = (each for each in named_by_one_alone(manifest, self._later(number)) if each.path > after)
            for batch in batches(alone, BATCH_FILES, BATCH_BYTES, lambda each: each.size):
                self._read(point, batch, filled, is_all=header.engine != RCLONE)
                unwritten += sum(each.size for each in batch)
                is_over = self.done.size >= self.budget
                if len(filled) > written and (is_over or unwritten >= UNWRITTEN_BYTES):
                    self._fill(point, manifest, filled, written)
                    written, unwritten = len(filled), 0
                if len(filled) == written:  # else these digests would be missing for a round if it is stopped
                    self.done.part, self.done.after = name, batch[-1].path
                if is_over:
                    return False
            if len(filled) > written:
                self._fill(point, manifest, filled, written)
        except ManifestDamaged as error:
            self._note(of_manifest(point, str(error)))
        return True

    def _later(self, number: int) -> Path | None:
        """The manifest of the next later point, or of the one after it if that cannot be read: any file that both this
        point and a later one name is named by all points between them.
        """
        for each in self.points[:number][::-1]:
            with suppress(ManifestDamaged):
                if found := self._manifest(each):
                    return found
        return None

    def _read(self, point: str, batch: list[Entry], filled: dict[str, str], *, is_all: bool) -> None:
        digests, problems = self._read_files(batch)
        for entry in batch:
            digest = digests.get(entry.place)
            if why := _problem(entry, digest, problems.get(entry.place)):
                self._note(Damage(point, entry.path, entry.place, why, is_all=is_all))
            elif entry.digest is None and digest:
                filled[entry.place] = digest
        self.done.files += len(batch)
        self.done.size += sum(each.size for each in batch)
        self.on_progress(self.done.files, self.done.size)

    def _read_files(self, entries: Sequence[Entry]) -> tuple[dict[str, str], dict[str, str]]:
        """Digests by place, and the problems of other files, including files whose size alone shows a problem."""
        digests, problems = self.store.read(self.files, [each.place for each in entries])
        wanted = {each.place: each.size for each in entries if each.digest is None and each.place in digests}
        found = self.store.sizes(self.files, wanted, by_name=True) if wanted else {}
        wrong = {place: size for place, size in found.items() if size != wanted[place]}
        text = "it has {:,} bytes, and {:,} were written"
        return digests, problems | {place: text.format(size, wanted[place]) for place, size in wrong.items()}

    def _fill(self, point: str, manifest: Path, filled: dict[str, str], before: int) -> None:
        """Write the manifest with these digests, where it may be replaced. `before`: the number of those that it was
        given already.
        """
        if not manifest.exists():  # an earlier try has failed
            return
        entries = (
            each._replace(digest=filled[each.place], digest_from="check")
            if each.folder and not each.digest and each.place in filled
            else each
            for each in manifests.read(manifest)
        )
        unfilled = known_points.digest_of(manifest)
        try:
            digest = runs.write_point(
                self.store, self.folder, point, manifests.read_header(manifest), entries, again=True
            )[1]
        except StorageFailed as error:
            self.done.not_filled = self.done.not_filled or f"{point}: {error}"
            with suppress(
                StorageFailed, ManifestDamaged
            ):  # the new or the old manifest may be there; both digests are known
                manifest.unlink()
                if self._manifest(point) and known_points.digest_of(manifest) == unfilled:
                    self.done.digests[point] = unfilled
            return
        if digest:
            self.done.filled += len(filled) - before
            self.done.digests[point] = digest
            if self.store.known is not None:
                self.store = replace(self.store, known={**self.store.known, point: [digest]})

    def _held(self, point: str, places: Collection[str]) -> dict[str, Entry]:
        """The entries of a point for the files at these places. Raises: ManifestDamaged."""
        manifest = self._manifest(point)
        entries = manifests.read(manifest) if manifest else iter(())
        return {each.place: each for each in _going_on(self.store, entries) if each.folder and each.place in places}

    def _manifest(self, point: str) -> Path | None:
        """The manifest of a point. None if it is gone. Raises: ManifestDamaged."""
        file = self.scratch / point
        if file.exists():
            return file
        if not self.store.manifest(self.folder, point, file):
            return None
        try:
            for _ in _going_on(self.store, manifests.read(file)):
                pass
        except ManifestDamaged:
            file.unlink()
            raise
        return file

    def _forget(self, number: int) -> None:
        """Free the disk space of manifests that are no longer compared with."""
        for each in self.points[:number]:
            (self.scratch / each).unlink(missing_ok=True)

    def _note(self, damage: Damage) -> None:
        """Record a damage. If it is known already, keep the newest point."""
        for number, each in enumerate(self.done.damaged):
            if (each.place, each.path) == (damage.place, damage.path):
                if layout.is_later(damage.point, each.point):
                    self.done.damaged[number] = replace(damage, oldest=each.oldest or each.point)
                return
        if len(self.done.damaged) < MOST_DAMAGED:
            self.done.damaged.append(damage)


def _problem(entry: Entry, digest: str | None, problem: str | None) -> str | None:
    """The problem of a file that was read and has that digest. None if it has none."""
    if problem:
        return problem
    if digest is None:
        return MISSING
    if entry.digest and digest != entry.digest:
        return f"its content has changed: SHA-256 {digest}, and {entry.digest} was written"
    return None


def _going_on(store: Store, entries: Iterator[Entry]) -> Iterator[Entry]:
    for number, each in enumerate(entries):
        if number % 1000 == 0:
            store.check_stop()
        yield each
