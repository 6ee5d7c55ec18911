"""The versions of one file: what each point holds of it. Manifests that are in no cache are searched as they come."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sources.storage import layout, manifests
from sources.storage.manifests import Entry
from sources.storage.store import Stopped, Store
from sources.storage.trees import is_cached, opened


def versions_of(store: Store, assignment: str, points: Sequence[str], path: str, cache: Path) -> list[dict[str, Any]]:
    """Each version with those of `points`, the newest first, that hold it: `points`, `kind`, `size`, `modified`. A
    manifest of a million files takes a second."""
    found: list[dict[str, Any]] = []
    before: Entry | None = None
    for point in points:
        if store.stop.is_set():
            raise Stopped
        entry = _entry_in(store, assignment, point, path, cache)
        if entry is not None and before is not None and entry.is_same(before):
            found[-1]["points"].append(point)
        elif entry is not None:
            facts = {"kind": entry.kind, "size": entry.size, "modified": entry.modified}
            found.append({"points": [point], **facts})
        before = entry
    return found


def _entry_in(store: Store, assignment: str, point: str, path: str, cache: Path) -> Entry | None:
    if store.location.is_restic or is_cached(store.location, assignment, point, cache):
        with opened(store, assignment, point, cache) as tree:
            return tree.entry(path)
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache.parent, suffix=f"-{point}") as file:
        if store.fetch(layout.manifest_path(assignment, point), Path(file.name)):
            return manifests.find(Path(file.name), path)
    return None
