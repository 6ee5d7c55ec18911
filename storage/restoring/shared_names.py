"""Files of a point that the target of a restore keeps under one name: its disk may fold case, decompose accents, or
replace some characters of a name. The file that comes last would silently replace the other one.

A few files in the staging folder show whether it is such a disk: on any other one nothing is noted, since a point may
have millions of files.
"""

import os
import re
from contextlib import suppress

from storage.folders.beneath import Beneath
from storage.points.entries import Entry
from storage.points.files import relative
from storage.points.named_files import folded

NAMES = {"Case": "cASE", "e\u0301": "\u00e9", 'a:b"?c. ': "a_b__c"}
"""Names that such disks change, with another name by which they may find the file."""
SIGNS = re.compile(r"[^\w/]|_")
SHARED = "its disk keeps it and {!r:.200} under one name: restore it by itself, into another folder"


class SharedNames:
    """The names in a target. `staging`: an empty folder there."""

    def __init__(self, target: Beneath, staging: Beneath) -> None:
        self._target = target
        self._held: dict[int, list[Entry]] | None = {} if _changes_names(staging) else None

    def note(self, entry: Entry) -> None:
        """Note a file or link that is in its place now."""
        if self._held is not None:
            self._held.setdefault(key_of(entry), []).append(Entry(entry.path, folder=entry.folder, stored=entry.stored))

    def holder(self, entry: Entry) -> str:
        """The path of a noted file that is also found by this one's name; empty if there is none."""
        for each in self._held.get(key_of(entry), ()) if self._held else ():
            is_one_file = each.folder != "" and each.place == entry.place  # hard links
            with suppress(OSError):
                found = [self._target.stat(relative(path)) for path in (each.path, entry.path)]
                if each.path != entry.path and not is_one_file and os.path.samestat(*found):
                    return each.path
        return ""


def key_of(entry: Entry) -> int:
    """A number that two paths have in common if a disk may keep them as one. Others may have it in common, too."""
    return hash(SIGNS.sub("", folded(entry.path)))


def _changes_names(folder: Beneath) -> bool:
    found = False
    for name, other in NAMES.items():
        path = name.encode()
        with suppress(OSError):  # it does not change a name that it refuses
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=folder.descriptor))
            found = found or name not in folder.names() or folder.exists(other.encode())
            folder.unlink(path)
    return found
