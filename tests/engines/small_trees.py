"""Trees of a few files in a folder of this host: made, and looked at whole."""

import os
import shutil
from pathlib import Path
from typing import Any

Seen = dict[str, tuple[Any, ...]]
"""Path → what is there."""


def seen(top: Path) -> Seen:
    found: Seen = {}
    for path in top.rglob("*"):
        facts, name = path.lstat(), str(path.relative_to(top))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", facts.st_mode)
        else:
            found[name] = ("file", path.read_bytes(), facts.st_mode, facts.st_mtime_ns)
    return found


def hard_links(top: Path) -> set[frozenset[str]]:
    by_inode: dict[int, set[str]] = {}
    for path in top.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_nlink > 1:
            by_inode.setdefault(path.stat().st_ino, set()).add(str(path.relative_to(top)))
    return set(map(frozenset, by_inode.values()))


def edit(top: Path, what: str, name: str, more: Any, when: int) -> None:
    """Put something there, whatever was there or is a file above it."""
    path = top / name
    if what == "file" and path.is_file() and not path.is_symlink() and when % 2:
        path.write_bytes(more)  # its hard links change with it
    else:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        for above in [path, *path.parents[: len(Path(name).parts) - 1]]:
            if above.is_symlink() or above.is_file():
                above.unlink()
        if what == "gone":
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if what == "file":
            path.write_bytes(more)
            path.chmod((0o644, 0o600, 0o755)[when % 3])
        elif what == "link":
            path.symlink_to(more)
        elif what == "folder":
            path.mkdir()
        elif what == "hard" and (top / more).is_file() and not (top / more).is_symlink():
            path.hardlink_to(top / more)
    if what == "file":
        os.utime(path, (1_700_000_000 + when, 1_700_000_000 + when))
