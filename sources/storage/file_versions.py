"""The versions of one file: what each point holds of it. Manifests that are in no cache are searched as they come."""

import gzip
import json
import tempfile
import zlib
from pathlib import Path
from typing import Any

from sources.storage import layout, runs
from sources.storage.manifests import Entry, ManifestDamaged
from sources.storage.store import Stopped, Store
from sources.storage.trees import is_cached, opened

MOST_POINTS = 60
"""That are looked at, from the newest one on. A manifest of a million files takes a second."""


def versions_of(store: Store, assignment: str, path: str, cache: Path) -> list[dict[str, Any]]:
    """Each version with the points that hold it, the newest first: `points`, `kind`, `size`, `modified`."""
    found: list[dict[str, Any]] = []
    before: Entry | None = None
    for point in runs.points(store, assignment)[: -MOST_POINTS - 1 : -1]:
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
    if is_cached(store.location, assignment, point, cache):
        with opened(store, assignment, point, cache) as tree:
            return tree.entry(path)
    begins = f'{{"path":{json.dumps(path)}'.encode()
    with tempfile.NamedTemporaryFile(dir=cache.parent) as file:
        if not store.fetch(layout.manifest_path(assignment, point), Path(file.name)):
            return None
        try:
            with gzip.open(file.name, "rb") as lines:
                for line in lines:
                    if line.startswith(begins) and line[len(begins) : len(begins) + 1] in (b",", b"}"):
                        return Entry(**json.loads(line))
        except (EOFError, zlib.error, gzip.BadGzipFile, TypeError) as error:
            raise ManifestDamaged(f"the manifest of point {point} is damaged: {error}") from None
    return None
