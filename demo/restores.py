"""The restores at the end of the demo: one file as it was before a change, and a whole database."""

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backups.restores import process
from demo.hosts import Host
from demo.processes import DemoError
from sources.models import Assignment
from sources.planning.requests import back_up_now
from storage.restoring.base import Wish

PATIENCE_SECONDS = 60.0
CHANGED = b"a change by mistake\n"


@dataclass(frozen=True)
class DemoRestore:
    """One restore. `path`: the restored file, with its size in `bytes`; `identical`: it equals the original."""

    source: str
    engine: str
    path: str
    bytes: int
    seconds: float
    identical: bool


def file_before_its_change(host: Host, home: Path, look: Callable[[], None]) -> DemoRestore:
    """Change a file of a host, back the host up once more, and restore the file as it was before. `look` keeps the demo
    running in the meantime. Raises: DemoError.
    """
    original = max((each for each in host.files.rglob("*") if each.is_file()), key=lambda each: each.stat().st_size)
    path = str(original.relative_to(host.files))
    before = original.read_bytes()
    original.write_bytes(CHANGED)
    assignment = Assignment.objects.select_related("policy__repository").get(source__name=host.name)
    _back_up_once_more(assignment, look)
    first, *_, newest = process.points(assignment.policy.repository, assignment.directory)
    is_changed = _bring_back(assignment, newest, (path,), home / "newest")[0].read_bytes() == CHANGED
    began = time.monotonic()
    file, *_ = _bring_back(assignment, first, (path,), home / "first")
    seconds, after = time.monotonic() - began, file.read_bytes()
    return DemoRestore(host.name, "rclone", path, len(after), round(seconds, 2), is_changed and after == before)


def whole_database(source: str, home: Path, differences: Callable[[Path], list[str]]) -> DemoRestore:
    """Bring the newest dump of a database back, and the database from it; `differences` does that and compares."""
    assignment = Assignment.objects.select_related("policy__repository").get(source__name=source)
    began = time.monotonic()
    newest = process.points(assignment.policy.repository, assignment.directory)[-1]
    files = _bring_back(assignment, newest, (), home)
    dump = next(each for each in files if each.suffix == ".dump")
    found = differences(dump)
    seconds = round(time.monotonic() - began, 2)
    return DemoRestore(source, "pg_dump", assignment.source.path, dump.stat().st_size, seconds, not found)


def newest(assignment: Assignment, target: Path) -> Path:
    """Bring the newest point of a source back into `target`. Returns that."""
    _bring_back(assignment, process.points(assignment.policy.repository, assignment.directory)[-1], (), target)
    return target


def _back_up_once_more(assignment: Assignment, look: Callable[[], None]) -> None:
    done, until = assignment.backups.count(), time.monotonic() + PATIENCE_SECONDS
    back_up_now([assignment], asked_by="the demo")
    while assignment.backups.count() == done:
        if time.monotonic() > until:
            raise DemoError(f"{assignment.source} was not backed up again within {PATIENCE_SECONDS:.0f} s")
        look()
        time.sleep(0.2)


def _bring_back(assignment: Assignment, point: str, paths: tuple[str, ...], target: Path) -> list[Path]:
    """The restored files. The contents of `target` are deleted first."""
    shutil.rmtree(target, ignore_errors=True)
    wish = Wish(assignment.directory, point, target, paths)
    report = process.restore(assignment.policy.repository, wish, threading.Event())
    if report.failed_files:
        raise DemoError(f"{assignment.source} did not come back whole: {report}")
    return sorted(each for each in target.rglob("*") if each.is_file())
