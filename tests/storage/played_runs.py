"""Runs of rclone into the folder of an assignment, played by hand: complete ones, and ones that end in the middle."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from storage import layout
from storage.points import manifests

Tree = dict[str, str]
"""Contents by path; folders are those that the paths need."""

ASSIGNMENT = "nas-7/nightly"
BEGAN = datetime(2026, 11, 1, 6, 57, 55, tzinfo=UTC)


@dataclass
class Played:
    """The repository at `root`, and what each of its points has to hold."""

    root: Path
    runs: int = 0
    expected: dict[str, Tree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.root / ASSIGNMENT
        self.current = self.folder / layout.CURRENT
        self.current.mkdir(parents=True, exist_ok=True)

    def back_up(self, tree: Tree, *, ends_after: int | None = None) -> str:
        """A run a day later; `ends_after` so many steps it fails, and leaves no manifest. Returns its name."""
        self.runs += 1
        name = layout.name_of(BEGAN + timedelta(days=self.runs))
        steps = self._steps(tree, self.folder / layout.VERSIONS / name)
        for number, _ in enumerate(steps):
            if number == ends_after:
                return name
        if ends_after is None:
            self._write_manifest(name, tree)
            self.expected[name] = dict(tree)
        return name

    def points(self) -> list[str]:
        """Those whose manifest is there."""
        found = self.folder.glob(f"{layout.MANIFESTS}/*{layout.MANIFEST_ENDING}")
        return sorted((file.name.removesuffix(layout.MANIFEST_ENDING) for file in found), key=layout.order_of)

    def restored(self, point: str) -> Tree:
        """The files of a point, found as a restore finds them."""
        runs = self.folder / layout.VERSIONS
        versions = {run.name: files_below(run) for run in runs.glob("2*Z*")}
        manifest = self.root / layout.manifest_path(ASSIGNMENT, point)
        paths = [entry.path for entry in manifests.read(manifest) if entry.kind == "file"]
        places = layout.places_of(paths, point, versions)
        return {path: (self.folder / place / path).read_text() for path, place in places.items()}

    def _steps(self, tree: Tree, version: Path) -> Iterator[None]:
        before = {path: (self.current / path).read_text() for path in files_below(self.current)}
        for path in sorted(before.keys() - tree.keys()):
            yield
            move(self.current / path, version / path)
        remove_empty_folders(self.current)
        for path in sorted(tree):
            if before.get(path) != tree[path]:
                if path in before:
                    yield
                    move(self.current / path, version / path)
                yield
                (self.current / path).parent.mkdir(parents=True, exist_ok=True)
                (self.current / path).write_text(tree[path])

    def _write_manifest(self, name: str, tree: Tree) -> None:
        header = manifests.Header(
            "nas", "local", "nightly", "rclone", "v1.75.2", layout.instant_of(name).isoformat(), ""
        )
        entries = [manifests.Entry(path, size=len(text)) for path, text in sorted(tree.items())]
        (self.folder / layout.MANIFESTS).mkdir(exist_ok=True)
        manifests.write(self.root / layout.manifest_path(ASSIGNMENT, name), header, entries)


def files_below(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(source, target)


def remove_empty_folders(folder: Path) -> None:
    for each in sorted(folder.rglob("*"), reverse=True):
        if each.is_dir() and not any(each.iterdir()):
            each.rmdir()
