"""Lists and reads the contents of a repository, by rclone or, where it is a folder on this host, without it."""

import os
import re
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage import layout
from storage.places.rclone import Rclone, StorageFailed, rows_to
from storage.places.servers import ARCHIVED, DAMAGED_OR_FOREIGN
from storage.points.batches import batches
from storage.points.files import rows_below
from storage.points.moving import LostContent, NotOurFile, TransferProgress, fetch_here, files_of
from storage.points.other_names import OF_A_NAME

SMALL, MANIFEST = 2**20, 2**30
"""The most bytes of a file of the scheduler in a repository, and of a manifest, which holds some 30
million files then.
"""
DIGEST = re.compile(r"([0-9a-f]{32,64})  ")
LISTING = ("lsjson", "--recursive", "--files-only", "--no-modtime", "--no-mimetype")
BY_NAME = ("--no-traverse",)
"""An option of rclone for files that a listing lacks: each is looked up, since a server may list it under another name
than it was given.
"""
OF_A_LOOK = 1_000
"""The most files that one rclone looks up: it shows no sign of life until it has looked up all of them."""
NOT_SHOWN = re.compile(r"\b(unauthorized|forbidden|locked|denied)\b|is a directory not a file", re.IGNORECASE)
"""Answers of servers about a name that they do not have as that of a file, or do not show."""
NO_FILE = "it is not a file, but a folder, a link or something else"
WATCHED = ("--stats=5s", "--stats-log-level=ERROR")
BETWEEN_LOOKS = 100
"""The number of files between two checks for a stop."""
UNREADABLE = re.compile(r"decrypt|crypt|corrupt|bad magic|unexpected EOF|hashes differ", re.IGNORECASE)
"""Messages of rclone about a file on a remote whose content is wrong; any other error may be one of the connection."""

OF_ITS_DISK = re.compile(r": (permission denied|operation not permitted|input/output error|bad message)\b")
"""Messages of rclone about a file on this host that cannot be read."""


@dataclass(frozen=True)
class ReadableStore(Rclone):
    """A repository that is listed and read. Each call blocks, and may raise the errors of `Rclone`."""

    def names(self, path: str, *, folders: bool = False) -> list[str]:
        """Names of the files, or of the folders, directly in a folder. Empty if it is missing."""
        if (here := self._here(path)) is not None:
            try:
                found = (each.name for each in os.scandir(here) if each.is_dir(follow_symlinks=False) is folders)
                return [_as_given(here, name) for name in found]
            except FileNotFoundError:
                return []
        kind = "--dirs-only" if folders else "--files-only"
        rows: list[dict[str, Any]] = []
        self._list(path, rows.append, kind, "--no-modtime")
        return [layout.as_given(row["Name"]) for row in rows]

    def assignments(self) -> list[str]:
        """The folders of all assignments with points, sorted."""
        rows: list[dict[str, Any]] = []
        self._list("", rows.append, "--recursive", "--dirs-only", "--max-depth=3")
        folders = (row["Path"].rpartition("/") for row in rows)
        return sorted(folder for folder, _, name in folders if folder and name.lower() == layout.MANIFESTS)

    def walk(
        self,
        path: str,
        take: Callable[[dict[str, Any]], object],
        *,
        among: Collection[str] = (),
        files_only: bool = False,
        times: bool = False,
    ) -> None:
        """Pass all files and folders below a folder to `take`, as rclone's lsjson lists them (Path, Size, ModTime,
        IsDir, …), in no particular order, each as it comes: a million take a gigabyte. `among`: only those in these
        folders below it. `files_only`: without folders, and without times unless these are wanted (`times`).
        """
        if (here := self._here(path)) is not None:
            for folder in among or ("",):
                for row in rows_below(here / folder, folder, files_only=files_only):
                    self.check_stop()
                    take(row)
            return
        kinds = ("--files-only", *(() if times else ("--no-modtime",))) if files_only else ()
        self._list(path, take, "--recursive", *only_in(among), *kinds)

    def read(self, path: str, paths: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Read files in a folder whole. Returns SHA-256 in hex by path, and the reasons why others cannot be read, by
        path. A file in neither is missing. Raises: StorageFailed, also for a file that may be whole and was out of
        reach.
        """
        digests, problems = self._hashed(path, paths, "sha256", "--download")
        for name, problem in problems.items():
            words = problem.replace(name, "…")  # a file may be called `scrypt.c`
            if not (self.location.directory or UNREADABLE.search(words) or ARCHIVED.search(words)):
                raise StorageFailed(f"{name}: {problem}")
        return digests, problems

    def digests(self, path: str, paths: Collection[str], kind: str) -> dict[str, str]:
        """Digests of this kind (sha256, sha1, md5) in hex, by path: files on this host are read; elsewhere the server
        is asked for the digests that it has.
        """
        with suppress(StorageFailed):
            return self._hashed(path, paths, kind, *(("--download",) if self.location.directory else ()))[0]
        return {}

    def _hashed(self, path: str, paths: Collection[str], *how: str) -> tuple[dict[str, str], dict[str, str]]:
        digests: dict[str, str] = {}
        problems: dict[str, str] = {}
        moved = TransferProgress()
        if (here := self._here(path)) is not None:
            there = {*files_of(here, paths)}  # a restore accepts no others
            problems |= {each: NO_FILE for each in paths if each not in there}
            paths = [each for each in paths if each in there]

        def take(line: str) -> None:
            if not moved.take(line) and (digest := DIGEST.match(line)):
                digests[line[digest.end() :]] = digest[1]

        def look(wanted: Collection[str], *more: str) -> None:
            self.with_paths(
                wanted, "hashsum", *how, *more, "--stats=5s", "--stats-log-level=ERROR", self.location.at(path),
                on_line=take, sign_of_life=lambda: (moved(), len(digests)), missing_ok=True, problems=problems,
            )  # fmt: skip

        look(paths)
        if "--download" in how:  # servers without digests have none by name either
            lacking = [each for each in paths if each not in digests and each not in problems]
            for part in batches(self._sizes_by_name(path, lacking), OF_A_LOOK):
                look(part, *BY_NAME)
        return digests, problems

    def sizes(self, path: str, paths: Collection[str] | None = None, *, by_name: bool = False) -> dict[str, int]:
        """The files below a folder, and their sizes in bytes; `paths`: only these; `by_name`: also those of `paths`
        that are listed under another name. Empty if it is missing.
        """
        found: dict[str, int] = {}

        def take(row: dict[str, Any]) -> None:
            found[row["Path"]] = row["Size"]

        if paths is None:
            self.walk(path, take, files_only=True)
        else:
            self.with_paths(paths, *LISTING, self.location.at(path), missing_ok=True, on_line=rows_to(take))
            if by_name:
                found |= self._sizes_by_name(path, [each for each in paths if each not in found])
        return found

    def _sizes_by_name(self, path: str, lacking: Sequence[str]) -> dict[str, int]:
        """Files that a listing lacks, looked up by their names in parts that are spread evenly. A file that the server
        does not show is missing; and once none of a part is there, the others are missing, too: the server renames
        nothing.
        """
        found: dict[str, int] = {}

        def take(row: dict[str, Any]) -> None:
            found[row["Path"]] = row["Size"]

        parts = -(-len(lacking) // OF_A_LOOK) if self.location.may_rename else 0
        for number in range(parts):
            before, problems = len(found), dict[str, str]()
            self.with_paths(
                lacking[number::parts], *LISTING, *BY_NAME, self.location.at(path),
                missing_ok=True, on_line=rows_to(take), problems=problems,
            )  # fmt: skip
            for name, problem in problems.items():
                words = problem.replace(name, "…")
                if not (NOT_SHOWN.search(words) or OF_A_NAME.search(words)):
                    raise StorageFailed(f"{name}: {problem}")
            if len(found) == before:
                break
        return found

    def present(self, paths: Collection[str]) -> set[str]:
        """The files among `paths` that exist, each looked up by its name: nothing is listed."""
        if self.location.is_plain:
            found = set[str]()
            for number, path in enumerate(paths):
                if number % BETWEEN_LOOKS == 0:
                    self.check_stop()
                try:
                    os.stat(self.location.at(path))
                    found.add(path)
                except (FileNotFoundError, NotADirectoryError):
                    continue
            return found
        lines: list[str] = []
        listing = ("lsf", "--no-traverse", "--recursive", "--files-only", self.location.root)
        self.with_paths(paths, *listing, missing_ok=True, on_line=lines.append)
        return set(lines)

    def fetch(self, path: str, file: Path, most: int = SMALL) -> bool:
        """Copy a file of at most `most` bytes out of the repository, in place of one that `file` may be. Returns True
        if it was there. Raises: StorageFailed, also for a larger one and for anything that is not a file;
        LostContent if its content is lost; TargetFailed if it fills this host's disk.
        """
        file.unlink(missing_ok=True)  # rclone would keep one of the same size, and time if the repository has times
        if (here := self._here(path)) is not None:
            return fetch_here(here, file, most)
        moved = TransferProgress(file.parent)
        watched: dict[str, Any] = {"missing_ok": True, "most": most, "on_line": moved.take, "sign_of_life": moved}
        try:
            if self.location.directory:
                return self._fetch_listed(path, file, watched)
            # for a bucket, a missing file is copied like an empty folder: with success
            return self.run("copyto", *WATCHED, self.location.at(path), str(file), **watched) and file.is_file()
        except StorageFailed as error:
            if _is_of_content(str(error).replace(path, "…")) or self._is_of_its_disk(str(error)):
                raise LostContent(str(error)) from None
            raise

    def _fetch_listed(self, path: str, file: Path, watched: dict[str, Any]) -> bool:
        """`fetch` from an encrypted folder on this host, if it lists the file. Raises: NotOurFile for a folder, a
        pipe or the like: if rclone got the name of a pipe, it would wait for someone to write into it.
        """
        folder, _, name = path.rpartition("/")
        with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
            self.with_paths([name], "copy", *WATCHED, self.location.at(folder), scratch, **watched)
            if (came := Path(scratch, name)).is_file():
                came.replace(file)
                return True
        try:
            is_there = bool(self.present([path]))
        except StorageFailed as error:  # a folder
            raise NotOurFile(f"{path} is not a file: nothing was read ({error})") from None
        if is_there:
            raise NotOurFile(f"{path} is not a file: nothing was read")
        return False

    def files_among(self, path: str, paths: Collection[str]) -> Collection[str]:
        """The paths at which a folder on this host has files: from anywhere else rclone may read more than a file, and
        for a pipe it would wait. All of them on a remote, and if a folder there cannot be listed.
        """
        if (here := self._here(path)) is not None:
            return files_of(here, paths)
        if not self.location.directory:
            return paths
        listed: list[str] = []
        take = rows_to(lambda row: listed.append(row["Path"]))
        try:
            self.with_paths(paths, *LISTING, self.location.at(path), on_line=take)
        except StorageFailed:
            return paths
        return listed

    def _is_of_its_disk(self, why: str) -> bool:
        """True if the disk of an encrypted folder on this host has lost a file, or denies it."""
        return f" {self.location.directory}/" in why and OF_ITS_DISK.search(why) is not None

    def _here(self, path: str) -> Path | None:
        """The same path on this host, for files whose names this program chose: they are too small to start a program
        for.
        """
        return Path(self.location.at(path)) if self.location.is_plain else None

    def _list(self, path: str, take: Callable[[dict[str, Any]], object], *options: str) -> None:
        at = self.location.at(path)
        self.run("lsjson", "--no-mimetype", *options, at, missing_ok=True, on_line=rows_to(take))


def _is_of_content(why: str) -> bool:
    """True if the content of this one file cannot be had, whatever the connection."""
    return DAMAGED_OR_FOREIGN in why or ARCHIVED.search(why) is not None


def only_in(folders: Collection[str]) -> tuple[str, ...]:
    """Options of rclone that limit it to these folders, or none if there are no folders."""
    return (*(f"--filter=+ /{each}/**" for each in folders), "--filter=- **") if folders else ()


def _as_given(folder: Path, name: str) -> str:
    """The name as it was given, if the folder finds it by that: most disks on this host are case-sensitive."""
    given = layout.as_given(name)
    return given if given == name or os.path.lexists(folder / given) else name
