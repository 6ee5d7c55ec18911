"""The contents of a source: a folder on this host by a walk of its tree, which finds owners, links and inodes; any
other source by one listing of rclone. Entries that could not be listed are named.
"""

import re
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.base import RunEnded, SourceSpec, Verdict
from engines.not_kept import UNTOLD
from engines.rclone import exclude
from engines.rclone.local import Listed, LocalFolder
from engines.rclone.options import pattern_options
from engines.rclone.remotes import is_bucket, remote_path
from engines.rclone.restore_folders import LEFT, is_of_a_restore
from engines.rclone.verdicts import QUOTE, Judgement
from external.processes.rows import number, row_of, text
from storage.folders import room
from storage.places.rclone import NOT_FOUND, ROW
from storage.points.bounds import LONGEST_PATH, MOST_PARTS, TOO_DEEP, is_nameable, shortened
from storage.points.counted_paths import CountedPaths
from storage.points.entries import Entry, head_of, is_readable, is_sound, leads_elsewhere
from storage.points.sorted_items import SortedItems
from storage.points.store import path_list

DOT = "\uff0e"
DOTS = re.compile(rf"(?:^|/){DOT}{{1,2}}(?:/|$)")
"""The form in which rclone shows the names `.` and `..`, for which it cannot ask in a bucket."""
NO_FOLDER_HOLDS = "{!r:.200} has a name that no folder can hold: rename it"
TOO_LONG = "its entry in the listing has more than 64 KiB"
MOST, MOST_EXCEPTIONS = 30_000_000, 100_000
"""The most entries of a point, as many as its manifest may hold (`reading.MANIFEST`), and the most that could not be
listed, which are held in memory.
"""
LOOK_EVERY = 10_000
OWNER = slice(6, 8)
"""The places of a file's owner and group among the fields of an entry."""
TOO_MANY = (
    "the source lists more than {:,} entries, which is more than a point can hold: leave large directories out (engine "
    "option exclude), or divide it into several sources"
)
TOO_MANY_EXCEPTIONS = "{:,} entries that the source lists so far cannot be kept, the last one {!r:.200}: {}"
NO_ROOM = "the source's list does not fit on the disk of temporary files: {}; make room there, or set TMPDIR"
NOT_UTF_8 = "its name is not UTF-8, so it cannot be copied: rename it"
QUOTED = "rclone does not distinguish a name with ‛ (U+201B) from one with two of them: rename it"
NOT_KEPT = "{} are not kept"
TOP = ""
"""The path of an exception that concerns the whole source."""
LONG = 10_000
MOST_FOLDERS = 100
"""The most folders that are asked for by name. If more are gone at once, the others stay for now."""
Ask = Callable[..., Judgement]
"""Runs rclone on the source, with these arguments; `on_line` gets each line that is not part of its log."""


@dataclass
class Listing:
    """A listing. `found` is filled; `reserve`: percent of the disk of temporary files that stay free; `exceptions`:
    path → why it could not be listed; `notes`: things that should be kept and are not kept whole, or that should not be
    there; `not_kept`: things that no backup of such a source keeps; `untold`: such things that may or may not be there;
    `is_sized`: False if the size of a file is not known; `empty`: the empty folders of a folder on this host; `owners`:
    each number of a user with that of a group, None if they are not known.
    """

    found: SortedItems[Listed]
    reserve: float = 0.0
    exceptions: dict[str, str] = field(default_factory=dict)
    notes: CountedPaths = field(default_factory=CountedPaths)
    not_kept: CountedPaths = field(default_factory=CountedPaths)
    untold: str = ""
    is_sized: bool = True
    empty: set[str] = field(default_factory=set)
    owners: set[tuple[int | None, int | None]] = field(default_factory=set)
    _count: int = 0
    _next_check: int = 0

    @property
    def lost(self) -> list[str]:
        """The things that the point does not keep, in sentences."""
        return [*self.not_kept.sentences, *([self.untold] if self.untold else [])]

    def add(self, listed: Listed) -> None:
        path, head, fields, _ = listed
        if leads_elsewhere(path) or not (len(path) < MOST_PARTS or is_nameable(path)):
            self._except_for(*_unsound(path))
        elif len(head) > LONG and not is_readable(Entry(*fields)):
            self._except_for(path, TOO_LONG)
        else:
            self.owners.add(fields[OWNER])
            if fields[1] == "folder" and is_of_a_restore(path):
                self.notes.add(LEFT, path)
            if self._count == self._next_check:
                self._check_bounds()
            self._count += 1
            self.found.add(listed)

    def except_for(self, path: str, why: str) -> None:
        self._except_for(*((path, why) if not path or is_sound(Entry(path)) else _unsound(path)))

    def _except_for(self, path: str, why: str) -> None:
        self.exceptions[path] = why
        if len(self.exceptions) > MOST_EXCEPTIONS:
            raise RunEnded(Verdict.SOURCE_FAILED, TOO_MANY_EXCEPTIONS.format(len(self.exceptions), path, why))

    def _check_bounds(self) -> None:
        """Check the bounds: listed entries wait on the disk of temporary files, and some servers list without end.
        Raises: RunEnded.
        """
        self._next_check = min(self._count + LOOK_EVERY, MOST)
        if self._count >= MOST:
            raise RunEnded(Verdict.SOURCE_FAILED, TOO_MANY.format(MOST))
        disk = Path(tempfile.gettempdir())
        if lack := room.lack(disk, self.reserve, written=self._count and float("inf")):
            raise RunEnded(Verdict.SOURCE_FAILED, NO_ROOM.format(lack))


def listed_of(entry: Entry) -> Listed:
    return entry.path, head_of(*entry.of_the_source), entry.of_the_source, None


def list_folder(listing: Listing, source: SourceSpec, options: dict[str, Any], check_stop: Callable[[], None]) -> None:
    """List a folder on this host. Raises: RunEnded if it cannot be listed at all; and what `check_stop` raises."""

    def note(path: str, text: str) -> None:
        listing.notes.add(text, path)

    def special(path: str, kind: str) -> None:
        listing.not_kept.add(NOT_KEPT.format(kind), path)

    is_left_out = exclude.matcher(pattern_options(options))
    try:
        notes = listing.except_for, note, special
        for each in LocalFolder(Path(source.path), is_left_out, *notes, check_stop, listing.empty):
            listing.add(each)
    except OSError as error:
        raise RunEnded(Verdict.SOURCE_FAILED, f"{source.path} cannot be listed: {error.strerror}") from None


def list_remote(listing: Listing, source: SourceSpec, options: dict[str, Any], ask: Ask, digest: str = "") -> Judgement:
    """List a source that is not a folder on this host. Returns the verdict on rclone: with warnings, if some of the
    source could not be listed. `digest`: the kind of digests that the source is asked for; empty if none.
    """

    def take(line: str) -> None:
        if line.startswith(ROW):
            row = row_of(line.rstrip(",\n"))
            if row is None and len(line) <= LONGEST_PATH:
                raise RunEnded(Verdict.SOURCE_FAILED, f"rclone's listing has a line that is not an entry: {line:.200}")
            if row is None:  # a line is cut at its bound
                listing.except_for(line.removeprefix(f'{ROW}:"'), TOO_DEEP)
                return
            path, is_folder = text(row, "Path"), row.get("IsDir") is True
            if "\ufffd" in path:
                listing.except_for(path, NOT_UTF_8)
            elif 2 * QUOTE in path:
                listing.except_for(path, QUOTED)
            elif is_bucket(source) and DOTS.search(path):
                listing.except_for(path, NO_FOLDER_HOLDS.format(path.replace(DOT, ".")))
            else:
                kind, size = ("folder", 0) if is_folder else ("file", number(row, "Size"))
                listing.is_sized &= row.get("Size") != -1 or is_folder
                hashes = row.get("Hashes")
                digests = [f"{name}:{each}" for name, each in hashes.items() if each] if type(hashes) is dict else []
                listing.add(listed_of(Entry(path, kind, size, text(row, "ModTime"), told="".join(digests[:1]))))

    listing.untold = UNTOLD.get(source.kind, "")
    digests = ("--hash", f"--hash-type={digest}") if digest else ()
    how = (*(("--fast-list",) if is_bucket(source) else ()), *digests)
    excludes = exclude.rclone_arguments(pattern_options(options))
    judgement = ask(("lsjson", remote_path(source), "--recursive", "--no-mimetype", *how, *excludes), take)
    for problem in judgement.problems:
        listing.except_for(problem.path or TOP, problem.message)
    if judgement.unnamed:
        listing.exceptions[TOP] = f"of {judgement.unnamed:,} more folders it is not known which"
    return judgement


def gone_of(source: SourceSpec, paths: Collection[str], listed_folders: Collection[str], ask: Ask) -> set[str]:
    """The paths, of those that were not listed, that the source itself confirms as gone: it is asked for each by name,
    except for one question for a folder that is gone with all its files. `listed_folders`: the folders that were
    listed.
    """
    single, folders = list[str](), dict[str, list[str]]()
    for path in paths:
        # a bucket has no folders, and reports that any is there
        if top := "" if is_bucket(source) else _topmost_unlisted(path, listed_folders):
            folders.setdefault(top, []).append(path)
        else:
            single.append(path)
    gone = set[str]()
    for at, (top, below) in enumerate(folders.items()):
        if at < MOST_FOLDERS and _is_gone(source, top, ask):
            gone.update(below)
    if single:
        there = set[str]()
        with path_list(single) as file:
            how = ("--no-traverse", "--recursive", "--files-only", f"--files-from0={file}")
            judgement = ask(("lsf", remote_path(source), *how), lambda line: there.add(line.rstrip("\n")))
        # rclone ends at the first path that it cannot find: nothing is known about the others then
        if judgement.verdict is Verdict.SUCCEEDED:
            gone.update(each for each in single if each not in there)
    return gone


def _is_gone(source: SourceSpec, folder: str, ask: Ask) -> bool:
    """True if a folder is gone, by rclone's exit code, or if a file is in its place: no other answer counts."""
    at, lines = remote_path(source), list[str]()
    judgement = ask(("lsjson", "--stat", f"{at}{'' if at.endswith((':', '/')) else '/'}{folder}"), lines.append)
    return judgement.exit_code in NOT_FOUND or (row_of("".join(lines)) or {}).get("IsDir") is False


def _topmost_unlisted(path: str, listed_folders: Collection[str]) -> str:
    parts = path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        if (above := "/".join(parts[:depth])) not in listed_folders:
            return above
    return ""


def _unsound(path: str) -> tuple[str, str]:
    """A path that no manifest may name, changed into one that it may, and the reason."""
    if not is_nameable(path):
        return shortened(path), TOO_DEEP
    if leads_elsewhere(path):
        parts = ["%2E" * len(each) if each in (".", "..") else each or "%2F" for each in path.split("/")]
        shown = re.sub("[\0\ud800-\udfff]", lambda found: f"%{ord(found[0]):02X}", "/".join(parts))
        return shown, NO_FOLDER_HOLDS.format(shown)
    return path, TOO_LONG
