"""Dumps of databases, and what a point holds of them."""

import os
from pathlib import Path


def dumps_in(destination: Path) -> list[str]:
    """Names of the points. Nothing else is left of the runs."""
    if not (destination / "files").exists():
        return []
    points = sorted(os.listdir(destination / "files"))
    if not points:
        return []
    assert set(os.listdir(destination / "manifests")) == {f"{name}.jsonl.gz" for name in points}
    return points
