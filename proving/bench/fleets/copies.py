"""One folder, copied by rclone or restic alone and by a backup as workers run it, in turn."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from backups import repository_orders
from engines.base import BackupTask, SourceSpec, Verdict
from engines.rclone.remotes import is_bucket
from engines.restic.engine import ResticProgress
from external.processes import runner
from external.processes.programs import find_rclone, find_restic
from external.processes.runner import Command
from proving.bench.fleets.served_files import alone_at, source_of
from storage import layout
from storage.places import remotes
from storage.places.identity import Identity, digest_of
from storage.places.location import RESTIC, of_directory

KEY = "0123456789abcdef" * 4
QUIET = ("--quiet", "--no-cache")
OURS, BARE = "backup", "rclone"
FIRST, UNCHANGED, CHANGED = "first", "unchanged", "1 % changed"
SETTLED_SECONDS = 2.5
"""A file that was written less than 2 s before a run is read once more by the next one, which would not be that of an
unchanged folder.
"""


def make_files(home: Path, files: int, size: int, *, every: int = 1) -> None:
    """Make files below `home`/files, a hundred in a folder, of `size` random bytes each; only each `every`-th one."""
    for number in range(0, files, every):
        folder = home / "files" / str(number // 100)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.bin").write_bytes(os.urandom(size))


def time_pair(
    home: Path, files: int, size: int, *, ours_first: bool, with_restic: bool, kind: str
) -> dict[str, dict[str, float]]:
    """Returns the seconds by case and by contestant. Both copies are removed; the files have changed afterwards.
    `kind`: the kind of the source."""
    with source_of(kind, home / "files") as spec:
        return _time_pair(spec, home, files, size, ours_first=ours_first, with_restic=with_restic)


def _time_pair(
    spec: SourceSpec, home: Path, files: int, size: int, *, ours_first: bool, with_restic: bool
) -> dict[str, dict[str, float]]:
    source, copies, repository = home / "files", home / "copies", home / "repository"
    ours = Identity("bench", "bench")
    location = of_directory(repository)
    if with_restic:
        ours = Identity("bench", "bench", True, digest_of(KEY), format=RESTIC)
        location = remotes.location_of(str(repository), {}, {}, KEY, format=RESTIC)
        if reason := repository_orders.ask("make_repository", location, ours=asdict(ours)).get("failed"):
            raise RuntimeError(reason)

    points = dict[str, list[str]]()  # as in the database: the digests of our points, with which the next run is ordered

    def back_up() -> None:
        whole = BackupTask(spec, location, "bench-1/bench", datetime.now(UTC), known=points)
        how: dict[str, Any] = {"on_progress": lambda progress: None, "stop": Event(), "ours": ours}
        how["keep"] = lambda point, digest: points.setdefault(point, []).append(digest)
        result = repository_orders.back_up(whole, **how, made=bool(points), newest=next(reversed(points), ""))
        if result.verdict is not Verdict.SUCCEEDED:
            raise RuntimeError(f"the backup ended: {result.verdict.value}, {result.error} {result.warnings}")
        points.clear()
        points[str(layout.point_of(result.snapshot))] = [result.manifest] if result.manifest else []

    def sync() -> None:
        where, environment = alone_at(spec)
        argv = (find_rclone(), "sync", "--config=", *fast, where, str(copies))
        subprocess.run(argv, check=True, env={"PATH": os.environ["PATH"], **environment})

    def snapshot() -> None:
        subprocess.run((find_restic(), *QUIET, "backup", "."), check=True, cwd=source, env=bare)

    fast = ("--fast-list",) if is_bucket(spec) else ()
    bare = {"PATH": os.environ["PATH"], "RESTIC_REPOSITORY": str(copies), "RESTIC_PASSWORD": KEY}
    repository.mkdir(exist_ok=True)
    if with_restic:  # the same key and derivation parameters, which restic otherwise chooses by the present load
        shutil.copytree(repository / RESTIC, copies)
    alone: tuple[str, Callable[[], None]] = (RESTIC, snapshot) if with_restic else (BARE, sync)
    both: list[tuple[str, Callable[[], None]]] = [(OURS, back_up), alone]
    found = {}
    time.sleep(SETTLED_SECONDS)
    try:
        for case in (FIRST, UNCHANGED, CHANGED):
            if case == CHANGED:
                make_files(home, files, size, every=100)
            found[case] = {name: _seconds(work) for name, work in (both if ours_first else both[::-1])}
        return found
    finally:
        for each in (copies, repository):
            shutil.rmtree(each, ignore_errors=True)


def read_progress(home: Path, lines: int) -> float:
    """Returns the processor seconds that reading `lines` lines of restic's progress costs."""
    status = '{"message_type":"status","seconds_elapsed":%d,"percent_done":0.5,"total_files":10000,"files_done":%d,'
    status += '"total_bytes":1000000000,"bytes_done":%d,"current_files":["/srv/data/folder/file.bin","/srv/data/b"]}'
    printed = home / "progress"
    printed.write_text("".join(f"{status % (number, number, number)}\n" for number in range(lines)))
    cat = shutil.which("cat", path=os.defpath) or "/bin/cat"
    seen = ResticProgress(lambda progress: None)
    began = time.process_time()
    runner.run(Command((cat, str(printed))), stop=Event(), on_line=seen.take)
    return time.process_time() - began


def _seconds(work: Callable[[], None]) -> float:
    os.sync()  # so that this copy does not pay for earlier writes
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
