"""Questions about a directory. A dead share never answers, so `directory_process` asks them wherever it may be one."""

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

OF_A_SOURCE = re.compile(r"-\d+$")


def missing(location: str) -> str | None:
    """The reason why there is no directory; None if there is one."""
    reason = f"{location} is not a directory here; is it mounted?"
    try:
        return None if Path(location).is_dir() else reason
    except OSError as error:  # a stale handle, a disk that cannot be read
        return f"{reason} ({os.strerror(error.errno or 0)})"


def open_to_others(location: str) -> str | None:
    """Directories of backups there that are open to accounts that this process's umask keeps out; None if there are
    none.
    """
    os.umask(closed := os.umask(0))
    open_ones: list[Path] = []
    with suppress(OSError):  # a backup reports it
        if os.stat(location).st_mode & 0o055 & closed:
            copies = (each for each in Path(location).iterdir() if OF_A_SOURCE.search(each.name))
            open_ones = [each for each in copies if each.stat().st_mode & 0o055 & closed]
    if not open_ones:
        return None
    return f"{open_ones[0]}" + (f" and {len(open_ones) - 1} more at {location}" if open_ones[1:] else "")


def not_usable(location: str) -> str | None:
    """The reason why `location`, an absolute path, cannot become a repository. None if it can. The test leaves no
    files.
    """
    existing = Path(location)
    try:
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            return f"{existing} is not a directory; name one"
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        what = "it" if existing == Path(location) else f"its nearest existing parent {existing}"
        return (
            f"{location} cannot be used: {what} is not writable ({error.strerror}); "
            "mount it, make it writable for this account, or name another directory"
        )


def not_made(location: str) -> str | None:
    """Make the directory with its parents, if it is missing. Returns the reason why that is not possible, or None."""
    try:
        Path(location).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{error.filename}: {error.strerror}; check that its disk is mounted, and make it for this account"
    return None
