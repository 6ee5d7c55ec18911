"""Scratch folders of killed restores, downloads and backups of the scheduler: they hold decrypted files of users."""

import tempfile
from datetime import datetime
from pathlib import Path

from django.conf import settings

from storage.folders.scratch import remove_left


def remove(now: datetime | None = None) -> int:
    """Remove them, on this host. Returns how many."""
    return sum(map(remove_left, (Path(tempfile.gettempdir()), Path(settings.VAR_DIR))))
