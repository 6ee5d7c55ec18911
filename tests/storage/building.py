"""A repository that is made by hand, as the engine makes it: `rclone sync --backup-dir` and a manifest a run."""

import os
import re
import stat
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

from external.processes.programs import find_rclone
from storage import layout
from storage.places import identity, remotes
from storage.places.identity import Identity
from storage.places.location import Location
from storage.points import manifests
from storage.points.files import digest_of
from storage.points.manifests import Entry, Header
from storage.points.store import Store

FIRST = datetime(2026, 11, 20, 6, tzinfo=UTC)
ASSIGNMENT = "nas-1/nightly"


@dataclass
class Built:
    """A source folder, and the repository of its backups, one an hour. `digests`: whether manifests have them. `key`:
    of an encrypted one."""

    folder: Path
    location: Location = field(init=False)
    points: list[str] = field(default_factory=list)
    digests: bool = True
    key: str | None = None
    runs: int = 0
    clock: int = 1_700_000_000_123_456_789

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

    def back_up(self, *, fails: bool = False) -> str:
        """One run. One that `fails` writes no manifest. Returns the name of its point."""
        name = layout.name_of(FIRST + timedelta(hours=self.runs))
        self.runs += 1
        at = self.location.at(ASSIGNMENT)
        subprocess.run(
            (
                *(find_rclone(), "sync", str(self.source), f"{at}/{layout.CURRENT}", "--create-empty-src-dirs"),
                *(f"--backup-dir={at}/{layout.VERSIONS}/{name}", "--config=", "--skip-links", "-q"),
            ),
            env=dict(os.environ) | dict(self.location.environment),
            check=True,
        )
        if not fails:
            self.point(name)
        return name

    def point(self, name: str, entries: list[Entry] | None = None, engine: str = "rclone", kind: str = "local") -> None:
        """Write a manifest, of the source as it is unless its entries are given."""
        at = layout.instant_of(name).isoformat()
        header = Header("nas", kind, "nightly", engine, "1", at, at)
        file = self.folder / "manifest"
        manifests.write(file, header, sorted(entries or self.entries(), key=lambda each: each.path))
        self.store.put(file, layout.manifest_path(ASSIGNMENT, name))
        self.points.append(name)

    def entries(self) -> list[Entry]:
        """The source as a manifest has it."""
        found = []
        for path in self.source.rglob("*"):
            facts, name = path.lstat(), as_shown(str(path.relative_to(self.source)))
            at = datetime.fromtimestamp(facts.st_mtime_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            at, mode = f"{at}.{facts.st_mtime_ns % 10**9:09d}Z", stat.S_IMODE(facts.st_mode)
            if path.is_symlink():
                found.append(Entry(name, "link", 0, at, target=os.readlink(path)))
            elif path.is_dir():
                found.append(Entry(name, "folder", 0, at, mode))
            else:
                digest = digest_of(os.fsencode(path)) if self.digests else None
                found.append(Entry(name, "file", facts.st_size, at, mode, digest=digest))
        return found


def as_shown(path: str) -> str:
    """A path as rclone shows it."""
    quoted = re.sub("([\u2400-\u241f\u2421])", "\u201b\\1", path)
    return re.sub("[\x01-\x1f]", lambda found: chr(ord(found[0]) + 0x2400), quoted).replace("\x7f", "\u2421")


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that a folder holds: kinds, contents, modes and times, by path."""
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (facts.st_mode, content, facts.st_mtime_ns)
    return found
