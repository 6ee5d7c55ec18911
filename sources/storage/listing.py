"""What a person is shown of a repository: points, and folders of one, as facts and as lines."""

from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import Any

from sources.storage import layout, moments
from sources.storage.store import Store
from sources.storage.trees import opened


def of_points(points: list[str], zone: tzinfo) -> list[dict[str, Any]]:
    """The points, the newest first."""
    found = ((each, layout.instant_of(each)) for each in reversed(points))
    return [{"point": name, "at": at.isoformat(), "local": moments.in_zone(at, zone)} for name, at in found]


def of_folder(store: Store, assignment: str, point: str, path: str, cache: Path) -> Iterator[dict[str, Any]]:
    """What lies right in a folder of a point; of a file, itself. Raises: NotThere."""
    with opened(store, assignment, point, cache) as tree:
        tree.check(path)
        entry = tree.entry(path)
        if entry and entry.kind != "folder":
            yield _facts(entry.path, entry.kind, entry.size, entry.modified)
            return
        after = ""
        while rows := tree.folder(path, after=after):
            for row in rows:
                yield _facts(row.entry.path, row.entry.kind, row.entry.size, row.entry.modified)
            after = rows[-1].name


def line_of_point(facts: dict[str, Any]) -> str:
    return f"{facts['point']}  {facts['local']}"


def line_of_entry(facts: dict[str, Any]) -> str:
    name = printable(facts["path"]) + ("/" if facts["kind"] == "folder" else "")
    return f"{facts['size']:>15,}  {facts['modified'][:19]:19}  {name}"


def printable(text: str) -> str:
    """Without what a terminal would take for a command."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _facts(path: str, kind: str, size: int, modified: str) -> dict[str, Any]:
    return {"path": path, "kind": kind, "size": size, "modified": modified}
