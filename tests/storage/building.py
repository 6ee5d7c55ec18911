"""A repository that is made by hand, in the format that engines write: files that a run brought, and a manifest."""

import os
import re
import shutil
import stat
import subprocess
from base64 import b64encode
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

from external.processes.programs import find_rclone
from storage import layout
from storage.places import identity, remotes
from storage.places.identity import Identity
from storage.places.location import Location
from storage.places.rclone import LISTED
from storage.points import manifests
from storage.points.files import digest_of
from storage.points.manifests import Entry, Header
from storage.points.store import Store, path_list

FIRST = datetime(2026, 11, 20, 6, tzinfo=UTC)
ASSIGNMENT = "nas-1/nightly"
FILES = layout.files_path(ASSIGNMENT)


@dataclass
class Built:
    """A source folder, and the repository of its backups, one an hour. `digests`: whether manifests have them;
    `owners`: and owners with extended attributes. `key`: of an encrypted one."""

    folder: Path
    location: Location = field(init=False)
    points: list[str] = field(default_factory=list)
    digests: bool = True
    owners: bool = False
    key: str | None = None
    runs: int = 0
    clock: int = 1_700_000_000_123_456_789
    last: dict[str, Entry] = field(default_factory=dict)
    """The entries of the newest point, by path."""

    def __post_init__(self) -> None:
        self.source.mkdir(parents=True)
        (self.folder / "repository").mkdir()
        self.location = remotes.location_of(str(self.folder / "repository"), {}, {}, self.key)
        identity.write(
            Store(self.location.bare, Event()),
            Identity("1", "disk", self.key is not None, identity.digest_of(self.key)),
        )

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def store(self) -> Store:
        return Store(self.location, Event())

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file of the source. Each has a time of its own."""
        file = self.source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(mode)
        self.clock += 1_000_000_001
        os.utime(file, ns=(self.clock, self.clock))

    def back_up(self, *, fails: bool = False, excepted: Iterable[Entry] = ()) -> str:
        """One run: brings what is new or has changed, and takes over the rest. One that `fails` writes no manifest.
        `excepted`: entries as they are, in place of those of the source. Returns the name of its point."""
        name = layout.name_of(FIRST + timedelta(hours=self.runs))
        self.runs += 1
        others = {each.path: each for each in excepted}
        found = {each.path: self._placed(each, name) for each in self.entries() if each.path not in others}
        self._bring(name, [each.place for each in found.values() if each.folder == name])
        if not fails:
            self.point(name, [*found.values(), *others.values()])
        return name

    def point(self, name: str, entries: list[Entry] | None = None, engine: str = "rclone", kind: str = "local") -> None:
        """Write a manifest of entries, or of the source as it is, whose files are in the folder of the point then."""
        at = layout.instant_of(name).isoformat()
        header = Header("nas", kind, "nightly", engine, "1", at, at, base=self.points[-1] if self.points else "")
        file = self.folder / name  # which gzip keeps
        if entries is None:
            entries = [each._replace(folder=name if each.kind == "file" else "") for each in self.entries()]
        manifests.write(file, header, sorted(entries, key=lambda each: each.path))
        self.store.put(file, layout.manifest_path(ASSIGNMENT, name))
        self.points.append(name)
        self.last = {each.path: each for each in entries}

    def stored(self, path: str) -> Path:
        """The file of the newest point that has this path, as it is stored in the repository, if that is plain."""
        return Path(self.location.at(f"{FILES}/{os.fsdecode(as_stored(self.last[path].place))}"))

    def entries(self) -> list[Entry]:
        """The source as a manifest has it, without folders of files."""
        found, firsts = [], dict[int, str]()
        for path in sorted(self.source.rglob("*")):
            facts, name = path.lstat(), as_shown(str(path.relative_to(self.source)))
            at = datetime.fromtimestamp(facts.st_mtime_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            at, mode = f"{at}.{facts.st_mtime_ns % 10**9:09d}Z", stat.S_IMODE(facts.st_mode)
            if path.is_symlink():
                entry = Entry(name, "link", 0, at, target=os.readlink(path))
            elif path.is_dir():
                entry = Entry(name, "folder", 0, at, mode)
            else:
                digest = digest_of(os.fsencode(path)) if self.digests else None
                entry = Entry(name, "file", facts.st_size, at, mode, digest=digest)
                if facts.st_nlink > 1 and (first := firsts.setdefault(facts.st_ino, name)) != name:
                    entry = entry._replace(linked=first)
            if self.owners:
                entry = entry._replace(uid=facts.st_uid, gid=facts.st_gid, attributes=_attributes(path))
            found.append(entry)
        return found

    def _placed(self, entry: Entry, run: str) -> Entry:
        """The place of an entry's file after this run: as in the point before, if the file is unchanged."""
        if entry.kind != "file":
            return entry
        path = entry.linked or entry.path
        old = self.last.get(path)
        if old is not None and old.folder and (old.size, old.modified) == (entry.size, entry.modified):
            return entry._replace(folder=old.folder, stored=old.stored or ("" if path == entry.path else path))
        return entry._replace(folder=run, stored="" if path == entry.path else path)

    def _bring(self, run: str, places: list[str]) -> None:
        paths = sorted({each.removeprefix(f"{run}/") for each in places})
        if not paths:
            return
        at = self.location.at(f"{FILES}/{run}")
        if self.location.is_plain:
            for each in paths:
                file = Path(at) / os.fsdecode(as_stored(each))
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.source / os.fsdecode(as_stored(each)), file)
            return
        with path_list(paths) as listed:
            subprocess.run(
                (find_rclone(), "copy", str(self.source), at, f"{LISTED}{listed}", "--config=", "-q"),
                env=dict(os.environ) | dict(self.location.environment),
                check=True,
            )


class WithoutPrograms(Store):
    """Copies by itself: another account may not be able to run the programs of this one."""

    def copy_out(self, path: str, target: str, paths: Collection[str], *_: object, **more: object) -> None:
        for each in paths:
            file = Path(target) / each
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(f"{self.location.at(path)}/{each}", file)


def as_shown(path: str) -> str:
    """A path as rclone shows it."""
    quoted = re.sub("([\u2400-\u241f\u2421])", "\u201b\\1", path)
    return re.sub("[\x01-\x1f]", lambda found: chr(ord(found[0]) + 0x2400), quoted).replace("\x7f", "\u2421")


def as_stored(path: str) -> bytes:
    """The way back."""
    control = re.sub("(?<!\u201b)[\u2401-\u241f]", lambda found: chr(ord(found[0]) - 0x2400), path)
    return os.fsencode(re.sub("(?<!\u201b)\u2421", "\x7f", control).replace("\u201b", ""))


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that a folder holds: kinds, contents, modes and times, by path."""
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (facts.st_mode, content, facts.st_mtime_ns)
    return found


def _attributes(file: Path) -> dict[str, str] | None:
    names = os.listxattr(file, follow_symlinks=False)
    return {each: b64encode(os.getxattr(file, each, follow_symlinks=False)).decode() for each in names} or None
