"""Checks that the place which a source names is there, before it is copied: an empty mount point is not taken for an
emptied folder, here or on another host.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from engines.base import BackupTask, RunEnded, SourceSpec, Verdict
from engines.rclone.remotes import remote_path
from engines.rclone.verdicts import Judgement

GLOB = re.compile(r"([*?\[\]{}\\])")
NO_FOLDER = re.compile(r"directory not found|does not exist on the source", re.IGNORECASE)
LACKS = "{} lacks its marker {}: its volume does not seem to be mounted"
RunRclone = Callable[[tuple[str, ...], Callable[[str], None]], Judgement]


def marker_of(source: SourceSpec) -> str:
    """The path of the marker below the source's; empty if none is required."""
    return str(source.options.get("marker") or "").strip("/")


def check_marker(source: SourceSpec, run: RunRclone) -> None:
    """Check the marker of a source of another host. Raises: RunEnded if it lacks its marker, or does not answer. `run`:
    runs rclone with the given arguments, and passes each line to a function.
    """
    marker = marker_of(source)
    if not marker or source.kind == "local":
        return
    folder, _, name = marker.rpartition("/")
    at = remote_path(source)
    if folder:
        at += folder if at.endswith((":", "/")) else f"/{folder}"
    found = list[str]()
    only = "--include=/" + GLOB.sub(r"\\\1", name)
    judgement = run(("lsf", at, "--max-depth=1", "--files-only", only), found.append)
    if name in (line.rstrip("\n") for line in found):
        return
    if judgement.verdict is not Verdict.SUCCEEDED and not NO_FOLDER.search(judgement.text):
        raise RunEnded(judgement.verdict, judgement.text)
    raise RunEnded(Verdict.UNAVAILABLE, LACKS.format(source.path or source.name, marker))


def check_folder(task: BackupTask) -> None:
    """Check a local folder. Raises: RunEnded if its volume is absent, or it overlaps the repository."""
    source = task.source
    if source.kind != "local":
        return
    folder = Path(source.path)
    marker = marker_of(source)
    if marker and not (folder / marker).exists():
        raise RunEnded(Verdict.UNAVAILABLE, LACKS.format(folder, marker))
    if not folder.is_dir():
        raise RunEnded(Verdict.SOURCE_FAILED, f"there is no directory {folder} here")
    copies = task.directory or task.location.directory
    if copies is None:
        return
    real_folder, real_copies = os.path.realpath(folder), os.path.realpath(copies)
    if os.path.commonpath([real_folder, real_copies]) in (real_folder, real_copies):
        raise RunEnded(
            Verdict.SOURCE_FAILED,
            f"{folder} and the repository's directory {copies} are one inside the other; a copy of the source "
            "would contain itself: move one of them",
        )
