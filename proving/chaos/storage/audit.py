"""Restores points, and reports what is wrong with the result."""

import shutil
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from proving.chaos.storage.changing import NAMES, STABLE, version_of, versions_at
from proving.chaos.storage.site import StorageSite
from storage import layout
from storage.points import manifests, runs
from storage.points.store import StorageFailed
from storage.points.trees import NotThere
from storage.restoring import into_folder
from storage.restoring.base import Report, RestoreRefused, Wish

BUSY = "another restic works"


class PointAudit:
    """The audit of the points at a site. `problems`: sentences, in the order in which they are found."""

    def __init__(self, site: StorageSite, journal: Path) -> None:
        self.site, self.journal = site, journal
        self.problems: list[str] = []
        self.verified = 0
        self._before: dict[tuple[str, str], dict[str, str]] = {}

    def points(self, which: str, folder: str) -> list[str]:
        """The points in a folder, or none if they cannot be listed, which is a problem unless restic prunes."""
        try:
            return runs.points(self.site.store(which), folder)
        except StorageFailed as error:
            if BUSY not in str(error):
                self.problems.append(f"{which} {folder}: its points cannot be listed: {error}")
            return []

    def verify(self, which: str, folder: str, point: str, *, at_rest: bool) -> None:
        """Restore a point. It may have been removed in the meantime, and, unless `at_rest`, it may be unreadable for a
        moment."""
        store, target = self.site.store(which), self.site.directory / "restored"
        try:
            report = into_folder.restore(Wish(folder, point, target), store, self.site.directory / "trees")
            found = [report.failed[0]] if report.failed else list(self._wrong(folder, point, target, report))
            self.verified += not found
        except (StorageFailed, RestoreRefused, NotThere) as error:
            found = [f"{type(error).__name__}: {error}"]
            if not at_rest and any(each in str(error) for each in (BUSY, " any more")):
                return
        finally:
            shutil.rmtree(target, ignore_errors=True)
        if found and point in self.points(which, folder):
            self.problems += [f"{which} {folder} {point}: {each}" for each in found]

    def check_named(self, which: str, folder: str) -> None:
        """Check that the points at rest name all stored files, and no others."""
        store, named = self.site.store(which), set[str]()
        if store.location.is_restic:  # which prunes them
            return
        with tempfile.TemporaryDirectory() as scratch:
            for point in self.points(which, folder):
                store.manifest(folder, point, file := Path(scratch, point))
                named |= {each.place for each in manifests.read(file) if each.folder}
        there = store.sizes(layout.files_path(folder)).keys()
        for what, places in (("no point names", there - named), ("there is no file at", named - there)):
            if places:
                self.problems.append(f"{which} {folder}: {what} {len(places)} places, such as {min(places)!r}")

    def _wrong(self, folder: str, point: str, target: Path, report: Report) -> Iterator[str]:
        source = folder.partition("-")[0]
        contents = {str(each.relative_to(target)): each.read_bytes() for each in target.rglob("*") if each.is_file()}
        versions = {path: version_of(f"{source}/{path}", content) for path, content in contents.items()}
        wanted = [f"stable/{number}" for number in STABLE]
        if report.complete:
            wanted += [f"{where}/{name}" for where in ("atomic", "inplace") for name in NAMES]
            started = layout.instant_of(point).timestamp()
            for path, oldest in versions_at(self.journal, source, started).items():
                if (got := versions.get(path)) is not None and got < oldest:
                    yield f"{path!r} is of version {got}, and was {oldest} when the backup began"
        yield from (f"it lacks {path!r}" for path in wanted if path not in contents)
        for path, version in versions.items():
            if version is None and path.startswith(("stable", "atomic")):
                yield f"{path!r} is not whole, of {len(contents[path])} bytes"
        digests = {path: sha256(content).hexdigest() for path, content in contents.items()}
        before = self._before.setdefault((folder, point), digests)
        for path in sorted(before.keys() | digests.keys()):
            if before.get(path) != digests.get(path):
                yield f"{path!r} differs from an earlier restore"
