"""Runs of an engine into the folder of an assignment, played by hand: whole ones, and ones that end in the middle."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from storage import layout
from storage.points import manifests
from storage.points.manifests import Entry, Header

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
        self.files = self.folder / layout.FILES
        self.files.mkdir(parents=True, exist_ok=True)

    def back_up(
        self,
        tree: Tree,
        *,
        linked: Mapping[str, str] | None = None,
        is_dump: bool = False,
        ends_after: int | None = None,
    ) -> str:
        """A run a day later. `linked`: paths that are the same file as another one. A dump takes over nothing. After
        `ends_after` files it ends, and leaves no point. Returns its name."""
        self.runs += 1
        name = layout.name_of(BEGAN + timedelta(days=self.runs))
        base = self._base()
        before = {} if is_dump or not base else {each.path: each for each in self.entries(base)}
        entries = list(self._entries(name, tree, linked or {}, before, base))
        new = [each for each in entries if layout.run_of(each.folder) == name]
        (self.folder / layout.MANIFESTS).mkdir(exist_ok=True)
        mark = self.folder / layout.MANIFESTS / f"{name}{layout.UNFINISHED}"
        manifests.write(mark, self._header(name, ""), new)
        for number, each in enumerate(new):
            if number == ends_after:
                return name
            (file := self.files / each.place).parent.mkdir(parents=True, exist_ok=True)
            file.write_text(tree[each.path])
        if ends_after is None:
            manifests.write(self.manifest(name), self._header(name, "" if is_dump else base), entries)
            self.expected[name] = dict(tree)
            mark.unlink()
        return name

    def points(self) -> list[str]:
        """The points whose manifest is there."""
        found = self.folder.glob(f"{layout.MANIFESTS}/*{layout.MANIFEST_ENDING}")
        return layout.by_time(file.name.removesuffix(layout.MANIFEST_ENDING) for file in found)

    def manifest(self, point: str) -> Path:
        return self.root / layout.manifest_path(ASSIGNMENT, point)

    def entries(self, point: str) -> list[Entry]:
        return list(manifests.read(self.manifest(point)))

    def place(self, point: str, path: str) -> Path:
        """The place of a file of a point."""
        return next(self.files / each.place for each in self.entries(point) if each.path == path)

    def restored(self, point: str) -> Tree:
        """The files of a point, found as a restore finds them."""
        return {each.path: (self.files / each.place).read_text() for each in self.entries(point)}

    def unnamed(self) -> set[str]:
        """Files that no point names."""
        named = {each.place for point in self.points() for each in self.entries(point)}
        return files_below(self.files) - named

    def _base(self) -> str:
        return next(iter(self.points()[::-1]), "")

    def _entries(
        self, name: str, tree: Tree, linked: Mapping[str, str], before: Mapping[str, Entry], base: str
    ) -> Iterator[Entry]:
        taken: dict[str, int] = {}
        own: dict[str, Entry] = {}
        left = self._left(base)
        for path in sorted(tree):
            first = linked.get(path, path)
            old = before.get(path)
            if first in own and first != path and tree[first] == tree[path]:
                entry = own[first]._replace(path=path, stored=own[first].stored or first, linked=first)
            elif old and (self.files / old.place).read_text() == tree[path]:
                entry = old
            elif lies := next((each for each in left if left[each] == (path, tree[path])), None):
                folder, _, stored = lies.partition("/")
                entry = Entry(path, size=len(tree[path]), folder=folder, stored="" if stored == path else stored)
            else:
                taken[path.lower()] = taken.get(path.lower(), 0) + 1
                entry = Entry(path, size=len(tree[path]), folder=layout.folder_of(name, taken[path.lower()]))
            own[path] = entry
            yield entry

    def _left(self, base: str) -> dict[str, tuple[str, str]]:
        """The files that killed runs since the last point have brought: path and content by place."""
        found = {}
        for folder in self.files.iterdir():
            if not base or layout.is_later(layout.run_of(folder.name), base):
                for path in files_below(folder):
                    found[f"{folder.name}/{path}"] = (path, (folder / path).read_text())
        return found

    def _header(self, name: str, base: str) -> Header:
        return Header(
            "nas", "local", "nightly", "rclone", "v1.75.2", layout.instant_of(name).isoformat(), "", base=base
        )


def files_below(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
