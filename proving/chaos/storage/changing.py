"""Sources whose files change all the time. The content of each shows its version, and whether it is whole: one line,
`<mark of its path> <version> <lines>`, repeated `<lines>` times.

stable    never changes
atomic    replaced by a rename: a whole version is there at each moment; the journal has each with its instant
inplace   written over, slowly
gone      deleted and written again
moved     renamed, and renamed back
swap      a folder that becomes a file, and a folder again
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from zlib import crc32

CHANGING = ("atomic", "inplace", "gone", "moved", "swap")
NAMES = (*map(str, range(9)), "two\nlines", "-rf \u2026", " blanks ")
STABLE = range(40)
LINES = (1, 50, 5_000, 30_000)
PIECE_BYTES = 100_000
PAUSES_SECONDS = (0.02, 0.1, 0.5)


def body(path: str, version: int, lines: int) -> bytes:
    return f"{_mark(path)} {version:08} {lines:06}\n".encode() * lines


def version_of(path: str, content: bytes) -> int | None:
    """The version of the file at `path` (which begins with the source's name), or None if the content is not whole."""
    first, _, _ = content.partition(b"\n")
    try:
        mark, version, lines = first.decode().split()
        is_whole = content == body(path, int(version), int(lines)) and mark == _mark(path)
        return int(version) if is_whole else None
    except ValueError:
        return None


def versions_at(journal: Path, source: str, instant: float) -> dict[str, int]:
    """The files of `atomic` as written until `instant`: path in the source → version."""
    found = {}
    for line in journal.read_text().splitlines():
        at, path, version = json.loads(line)
        if at < instant and path.startswith(f"{source}/"):
            found[path.partition("/")[2]] = version
    return found


class ChangingSources:
    """The sources in `top`. Instants in the `journal` are seconds since 1970."""

    def __init__(self, top: Path, journal: Path, names: tuple[str, ...], seed: int) -> None:
        self.top, self.journal, self.names = top, journal, names
        self.luck, self.version = Random(seed), 0  # noqa: S311 - no secret

    def make(self) -> None:
        for name in self.names:
            for folder in ("stable", *CHANGING):
                (self.top / name / folder).mkdir(parents=True)
            for number in STABLE:
                path = f"{name}/stable/{number}"
                (self.top / path).write_bytes(body(path, 0, 1 + number * 200))
            for each in NAMES:
                self._replace(f"{name}/atomic/{each}")
                self._write(f"{name}/inplace/{each}")

    def change(self) -> None:
        """Change the files until this process is killed."""
        deeds: tuple[Callable[[str], None], ...] = (self._replace, self._write, self._delete, self._move, self._swap)
        while True:
            for name in self.names:
                for _ in range(3):
                    number = self.luck.choices(range(5), (8, 4, 3, 3, 2))[0]
                    deeds[number](f"{name}/{CHANGING[number]}/{self.luck.choice(NAMES)}")
            time.sleep(self.luck.choice(PAUSES_SECONDS))

    def _body(self, path: str) -> bytes:
        self.version += 1
        return body(path, self.version, self.luck.choice(LINES))

    def _replace(self, path: str) -> None:
        new = self.top / "new"
        new.write_bytes(self._body(path))
        os.replace(new, self.top / path)
        with self.journal.open("a") as journal:
            journal.write(json.dumps([time.time(), path, self.version]) + "\n")

    def _write(self, path: str) -> None:
        content = self._body(path)
        with (self.top / path).open("wb", buffering=0) as file:
            for start in range(0, len(content), PIECE_BYTES):
                file.write(content[start : start + PIECE_BYTES])
                time.sleep(0.01)

    def _delete(self, path: str) -> None:
        file = self.top / path
        if file.exists():
            file.unlink()
        else:
            self._write(path)

    def _move(self, path: str) -> None:
        file, other = self.top / path, self.top / f"{path}.x"
        if file.exists():
            file.rename(other)
        elif other.exists():
            other.rename(file)
        else:
            self._write(path)

    def _swap(self, path: str) -> None:
        file, inner = self.top / path, f"{path}/inner"
        if file.is_dir():
            (self.top / inner).unlink()
            file.rmdir()
            self._write(path)
        else:
            file.unlink(missing_ok=True)
            file.mkdir()
            self._write(inner)


def _mark(path: str) -> str:
    return f"{crc32(os.fsencode(path.removesuffix('.x'))):08x}"
