"""The staging directories on this host: where they are, and their removal with their assignments."""

import threading
from pathlib import Path

from django.conf import settings

from engines import staging
from sources.models import Assignment

_removing = threading.Lock()


def root() -> Path:
    return Path(settings.VAR_DIR) / "staging"


def remove_unused() -> int:
    """Remove the directories of assignments that are gone or retired, each minute on each host with a worker, in a
    thread: a million files take a while. Returns their number."""
    if not root().is_dir() or _removing.locked():
        return 0
    assigned = Assignment.objects.filter(source__retired_at=None).exclude(directory="")
    folders = staging.unused(root(), set(assigned.values_list("directory", flat=True)))
    if folders:
        threading.Thread(target=_remove, args=(folders,), name="remove-staging", daemon=True).start()
    return len(folders)


def _remove(folders: list[str]) -> None:
    with _removing:
        for folder in folders:
            staging.remove(root(), folder)
