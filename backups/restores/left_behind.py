"""Scratch folders of killed restores, downloads and backups of the scheduler: they hold decrypted files of users."""

import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from django.conf import settings

from storage.folders.scratch import remove_left


def remove(now: datetime | None = None) -> int:
    """Remove them, on this host. Returns how many."""
    parents = [Path(settings.VAR_DIR)]
    with suppress(OSError):  # no folder takes temporary files, for example since the disk is full
        parents.append(Path(tempfile.gettempdir()))
    return sum(map(remove_left, parents))
