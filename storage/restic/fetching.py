"""Copies files out of a snapshot into a folder on this host, by `restic restore`.

restic 0.14 prints nothing while it restores: its progress is read from the files that it has written. A file that it
could not restore is removed, so that all existing files are whole.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from storage.folders.beneath import LIST
from storage.folders.walking import folders_below
from storage.points.batches import batches
from storage.points.files import path_in
from storage.restic.program import Restic, ResticFailed
from storage.restic.verdicts import ResticTrouble

BY_NAME = 1_000
"""The most files that are requested by name; if there are more, everything that holds them is fetched."""
ARGUMENT_BYTES, OF_EACH = 500_000, len("--include=") + 9
"""The most bytes of arguments that a program takes, and the bytes of each argument in addition to its text."""
PIECE = 1_000
"""The number of files that are examined between two looks at the program."""
SHARE = 10
"""The wait for the next look, as a multiple of the duration of the last one."""
SPECIAL = re.compile(rb"[\\*?\[\]]")
NOT_SET = re.compile(r"lchown|chown|chmod|utime|xattr|operation not permitted|mknod|mkfifo", re.IGNORECASE)
"""Messages of restic about metadata. The content is there."""
PROBLEM = "ignoring error for "
NUMBER = re.compile(r"There were (\d+) errors")


class Growth:
    """The number and size of files in a folder: looked at in pieces, since a look at a million files takes seconds."""

    def __init__(self, folder: Path, on_progress: Callable[[int, int], None]) -> None:
        self._folder, self._on_progress = folder, on_progress
        self._look = self._looks()
        self.found = (0, 0)

    def __call__(self) -> tuple[int, int]:
        """A sign of life: it changes as long as files grow."""
        next(self._look)
        return self.found

    def _looks(self) -> Iterator[None]:
        while True:
            files = size = 0
            began = time.monotonic()
            for number, each in enumerate(self._entries()):
                with suppress(OSError):
                    size += each.stat(follow_symlinks=False).st_blocks * 512
                    files += 1
                if number % PIECE == 0:
                    yield
            if (files, size) != self.found:
                self.found = files, size
                self._on_progress(files, size)
            again_at = time.monotonic() + max(0.4, (time.monotonic() - began) * SHARE)
            yield
            while time.monotonic() < again_at:
                yield

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """The files, as far as nothing is moved or removed in the meantime."""
        with suppress(OSError):
            top = os.open(self._folder, LIST)
            try:
                for _, _, entries in folders_below(top):
                    yield from (each for each in entries if not each.is_dir(follow_symlinks=False))
            finally:
                os.close(top)


def fetch_files(
    restic: Restic, snapshot: str, folder: Path, paths: Collection[str], tops: Collection[str], growth: Growth
) -> None:
    """Restore `paths` of a snapshot, or all of `tops`, which hold them, if they are many. Raises: the errors of
    `Restic.run`.
    """
    wanted = paths if len(paths) <= BY_NAME else tops
    patterns = [_pattern(each) for each in wanted]
    some = batches(patterns, len(patterns), ARGUMENT_BYTES, lambda each: len(each) + OF_EACH)
    for batch in [[]] if "" in wanted else some:  # without a pattern: all
        problems: list[str] = []
        errors, last = -1, ""

        def take(line: str, problems: list[str] = problems) -> None:
            nonlocal errors, last
            if found := NUMBER.search(line):
                errors = int(found[1])
            elif line.startswith(PROBLEM):
                problems.append(line.removeprefix(PROBLEM))
            last = line.strip() or last

        arguments = ("restore", snapshot, f"--target={folder}", *(f"--include={os.fsdecode(each)}" for each in batch))
        code = restic.run(*arguments, on_line=take, sign_of_life=growth, fine=(1,))
        if code and len(problems) != errors:
            raise ResticFailed(ResticTrouble.OTHER, last or f"restic restore ended with code {code}")
        for text in problems:
            _remove_piece(text, folder)


def _remove_piece(text: str, folder: Path) -> None:
    """Remove a file that `text` names, in the form `/path: why`: no character marks the end of the path."""
    parts = text.split(": ")
    for number in range(1, len(parts)):
        if not NOT_SET.search(parts[number]):
            with suppress(OSError):  # a missing file, or a folder
                os.unlink(os.fsencode(f"{folder}{': '.join(parts[:number])}"))


def _pattern(path: str) -> bytes:
    """restic's pattern for exactly this path of a manifest. A byte that is not UTF-8 matches any one character."""
    raw = path_in(Path("/"), path)
    return SPECIAL.sub(rb"\\\g<0>", raw).replace("\ufffd".encode(), b"?")
