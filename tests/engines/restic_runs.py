"""Sources that restic backs up."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.base import BackupTask, EngineProgress, EngineResult
from external.processes.programs import find_restic
from storage.places import remotes
from storage.places.identity import Identity, digest_of
from storage.places.location import RESTIC, Location
from storage.stores import store_of
from tests.engines.peers import run, task_for
from tests.engines.restic_keys import make_empty
from tests.processes import below
from tests.waiting import eventually

KEY, OTHER_KEY = "0123456789abcdef" * 4, "5e" * 32
FOLDER = "files-1/nightly"


def location_at(directory: Path, key: str = KEY) -> Location:
    return remotes.location_of(str(directory), {}, {}, key, format=RESTIC)


def restic_task(source: Any, location: Location, **fields: Any) -> BackupTask:
    made = task_for(source, location.directory or Path("/x"), location=location, folder=FOLDER)
    return replace(made, **fields)


def back_up(task: BackupTask, on_progress: Callable[[EngineProgress], None] = lambda progress: None) -> EngineResult:
    """Run the engine as the process that works in a repository does."""
    store = store_of(task.location, threading.Event())
    if (directory := task.location.directory) and not directory.exists():
        make_empty(directory / RESTIC, KEY)
        store.make(IDENTITY)  # type: ignore[attr-defined]
    return run(task, on_progress)


IDENTITY = Identity("1f8a", "office", True, digest_of(KEY), format=RESTIC)
MADE = {"made": True, "unlike": ""}
"""The answer of `questions.make_repository` for a new one that is as it is to be."""


def contents(folder: Path) -> dict[bytes, tuple[Any, ...]]:
    """Path → what it is, byte for byte, with mode and time."""
    found: dict[bytes, tuple[Any, ...]] = {}
    for parent, names, files in os.walk(os.fsencode(folder)):
        for name in (*names, *files):
            path = os.path.join(parent, name)
            state, relative = os.lstat(path), os.path.relpath(path, os.fsencode(folder))
            if os.path.islink(path):
                found[relative] = ("link", os.readlink(path), state.st_mtime_ns)
            elif os.path.isdir(path):
                found[relative] = ("folder", state.st_mode)
            elif os.path.isfile(path):
                found[relative] = ("file", Path(os.fsdecode(path)).read_bytes(), state.st_mode, state.st_mtime_ns)
    return found


MIB = 2**20


def fill(folder: Path, files: int, size: int) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        (folder / f"{number}").write_bytes(os.urandom(size))
    return folder


def children(text: str) -> list[int]:
    """Our own processes whose command line holds `text` and restic's name: a test beside has such, too."""
    return [each.pid for each in below(find_restic(), part=text)]


@contextmanager
def killing(text: str, when: Callable[[], bool]) -> Iterator[None]:
    """Kill the restic that has `text` in its command line, as soon as `when` says so, while the block lasts."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.003):
            with suppress(OSError):  # a folder that `when` looks into, or the process, has gone
                if when() and (found := children(text)):
                    os.kill(found[0], signal.SIGKILL)
                    return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def frozen_prune(location: Location, locks: Path) -> Iterator[None]:
    """A prune that holds its lock for as long as the block lasts."""
    environment = {**os.environ, **location.environment}
    is_held = False

    def is_locked() -> bool:  # a lock is a file without an ending; restic writes it under another name
        return any(each.name.isalnum() for each in locks.iterdir())

    while not is_held:
        held = subprocess.Popen((find_restic(), "prune", "--no-cache"), env=environment, stdout=subprocess.DEVNULL)
        eventually(lambda held=held: is_locked() or held.poll() is not None)  # type: ignore[misc]
        os.kill(held.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, held.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # it runs on for a moment
        is_held = held.poll() is None and is_locked()
        try:
            if is_held:
                yield
        finally:
            os.kill(held.pid, signal.SIGCONT)
            held.wait()
