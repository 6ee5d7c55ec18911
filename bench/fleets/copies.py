"""One folder, copied by rclone alone and by a backup as workers run it, in turn."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from sources.backups import repositories
from sources.engines.base import BackupTask, SourceSpec, Verdict
from sources.processes.programs import find_rclone
from sources.storage.identity import Identity
from sources.storage.location import of_directory

OURS, BARE = "backup", "rclone"
FIRST, UNCHANGED = "first", "unchanged"


def make_files(home: Path, files: int, size: int) -> None:
    """Below `home`/files, a hundred in a folder: `size` random bytes altogether."""
    for number in range(files):
        folder = home / "files" / str(number // 100)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.bin").write_bytes(os.urandom(size // files))


def time_pair(home: Path, *, ours_first: bool) -> dict[str, dict[str, float]]:
    """Returns the seconds by case and by who copied. Both copies are removed."""
    source, copies, repository = home / "files", home / "copies", home / "repository"
    whole = BackupTask(
        source=SourceSpec("bench", "local", "", None, str(source), {}, None, ""),
        location=of_directory(repository),
        folder="bench-1/bench",
        started_at=datetime.now(UTC),
    )
    ours = Identity("bench", "bench")

    def back_up() -> None:
        result = repositories.back_up(whole, on_progress=lambda progress: None, stop=Event(), ours=ours)
        if result.verdict is not Verdict.SUCCEEDED:
            raise RuntimeError(f"the backup ended: {result.verdict.value}, {result.error} {result.warnings}")

    def sync() -> None:
        subprocess.run((find_rclone(), "sync", "--config=", str(source), str(copies)), check=True)

    repository.mkdir()
    both: list[tuple[str, Callable[[], None]]] = [(OURS, back_up), (BARE, sync)]
    try:
        return {
            case: {name: _seconds(work) for name, work in (both if ours_first else both[::-1])}
            for case in (FIRST, UNCHANGED)
        }
    finally:
        for each in (copies, repository):
            shutil.rmtree(each, ignore_errors=True)


def _seconds(work: Callable[[], None]) -> float:
    os.sync()  # what was written before is not paid for by this one
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
