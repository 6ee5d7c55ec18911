"""Collisions of a run's files, which would meet in one place of some repository: a disk that folds case, or takes two
spellings of an accent for one, keeps one of two such files, and gives it back as either.

The key of a path consists of its names in NFC, with case folded. In one folder of a run no two files have one key, no
path is a file and another one's folder, and no folder is spelled in two ways.
"""

import re
from dataclasses import dataclass, field

from storage import layout
from storage.points.named_files import key_of
from storage.points.store import PARTIAL_SUFFIX

LONGEST_NAME = 143
"""Bytes that encryption leaves of the 255 of most file systems."""
ODD = re.compile(rf"(?:^|/)\.{{0,2}}(?:/|$)|[. ](?:/|$)|{re.escape(PARTIAL_SUFFIX)}$")
"""Names that some servers do not keep: an empty one, `.`, and names that end with a dot or space; and names that end
like a file that is being fetched.
"""
QUOTED = re.compile("\u201b[\u201b89A-F]")
Key = int


def needs_another_name(path: str) -> bool:
    """True if some repository may not hold it under its name."""
    return ODD.search(path) is not None or (
        len(path) > LONGEST_NAME // 4
        and any(len(each.encode("utf-8", "replace")) > LONGEST_NAME for each in path.split("/"))
    )


def is_quoted(path: str) -> bool:
    """True if rclone does not find a file on this host under the name that it shows: the name contains \u201b, or is
    not UTF-8.
    """
    return QUOTED.search(path) is not None


@dataclass
class _RunFolder:
    """A folder of a run, as far as it is filled. `spelled`: key of a folder → that of its spelling."""

    files: set[Key] = field(default_factory=set)
    spelled: dict[Key, int] = field(default_factory=dict)
    fits: str | None = None
    """The folder that was checked last, and fitted."""

    def take(self, path: str) -> bool:
        """Take a file into the folder. Returns True if it has its place here."""
        above = path.rpartition("/")[0]
        key = key_of(path)
        if key in self.files or key in self.spelled:
            return False
        if above != self.fits and not self._take_folders(above):
            return False
        self.fits = above
        self.files.add(key)
        return True

    def _take_folders(self, folder: str) -> bool:
        new: dict[Key, int] = {}
        while folder:
            key, spelling = key_of(folder), hash(folder)
            known = self.spelled.get(key)
            if key in self.files or (known is not None and known != spelling):
                return False
            if known is not None:
                break
            new[key] = spelling
            folder = folder.rpartition("/")[0]
        self.spelled |= new
        return True


class Folders:
    """The folders of a run's files, which decide where a path goes."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._folders: list[_RunFolder] = []

    def folder_for(self, path: str) -> str:
        """The folder for a path, such as `20261121T065755Z`, or with `.2` if something else has that place."""
        number = 0
        for number, each in enumerate(self._folders, start=1):
            if each.take(path):
                return layout.folder_of(self._run, number)
        self._folders.append(new := _RunFolder())
        new.take(path)
        return layout.folder_of(self._run, number + 1)
