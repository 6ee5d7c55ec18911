"""The check that backups can be written to a folder on this host."""

import os
import tempfile
from pathlib import Path

from storage import layout
from storage.folders import room
from storage.places.directories import missing

TRIED_WITH = b"\0" * 65_536


def not_written(location: str, reserve: float, made: bool = False) -> str | None:
    """The reason why no backup can be written to a directory. None if one can. The file of the test has no name.

    `reserve`: percent of its file system that must be free. `made`: True if its `repository.json` must be there.
    """
    directory = Path(location)
    try:
        if made and not (directory / layout.REPOSITORY).exists():
            return layout.LOST.format(directory)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(TRIED_WITH)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if reason := missing(location):
            return f"{reason} If its disk is, make the directory again, for this account to write"
        return (
            f"{directory} cannot be written ({error.strerror}): check that its disk is mounted, has room, and accepts "
            "what this account writes"
        )
    return room.lack(directory, reserve) or None
