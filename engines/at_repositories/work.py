"""Carries out an order at a repository in a separate process: it reports that it is alive, and can be stopped."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engines.at_repositories.confinement import explained
from engines.base import EngineProgress
from external.processes.programs import ProgramMissing
from external.processes.serving import say
from storage.places.directories import missing
from storage.places.identity import Identity
from storage.places.location import Location
from storage.places.locks import Busy, locked
from storage.points.known import Known
from storage.points.manifests import ManifestDamaged
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.recover import instructions
from storage.stores import store_of

ALIVE_EVERY_SECONDS = 1.0
FAILURES: Mapping[str, type[Exception]] = {"stopped": StorageStopped, "busy": Busy, "failed": StorageFailed}
"""The exceptions of an order at a repository, each with its word."""


class Stop:
    """A stop signal that SIGTERM sets, once `listen` was called. Each check also reports, at most once a second, that
    this process is alive, after a look at the folders of its `repositories`.
    """

    _stopped = False

    def __init__(self, *repositories: Path | None) -> None:
        self._repositories = [each for each in repositories if each]
        self._say_at = float("-inf")

    @classmethod
    def listen(cls) -> None:
        """Prepare the `main` of a process that carries out one order: SIGTERM does not end it, and sets each `Stop`."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(cls, "_stopped", True))

    def is_set(self) -> bool:
        if (now := time.monotonic()) >= self._say_at:
            self._say_at = now + ALIVE_EVERY_SECONDS
            for each in self._repositories:
                with suppress(OSError):  # the engine will report it
                    os.stat(each)  # never returns on a dead share: then this process is silent, and is ended
            say({})
        return self._stopped


def at_work(
    location: dict[str, Any],
    folder: str,
    work: Callable[[Store], dict[str, Any]],
    known: Known | None = None,
    owner: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Work in the folder of an assignment, whose `known` points are ours, in a repository with the identity `owner`
    (None if it may have none yet). Returns the result of `work`. Raises: FAILURES; whatever else `work` raises.
    """
    where = Location.of_json(location)
    check_there(where)
    try:
        if owner:  # before the lock, which is a file in the repository
            store = store_of(where, Stop(where.directory), known=known)
            instructions.check_place(store, Identity(**owner), folder)
        with locked(where, folder) as lock:
            return work(store_of(where, Stop(where.directory), lock, known))
    except (ManifestDamaged, ProgramMissing) as error:
        raise StorageFailed(str(error)) from error
    except StorageFailed as error:
        raise StorageFailed(explained(str(error), where)) from error
    except OSError as error:
        text = f"{error.filename or where.outside} cannot be written: {error.strerror or error}"
        raise StorageFailed(explained(text, where)) from error


def check_there(location: Location) -> None:
    """Check that a directory is there. Raises: StorageFailed if it is missing."""
    if location.directory and (reason := missing(str(location.directory))):
        raise StorageFailed(reason)


def say_progress(progress: EngineProgress) -> None:
    say({"progress": asdict(progress)})


def say_files(files: int, size: int) -> None:
    """Report the progress of work without an engine: files and bytes so far."""
    say_progress(EngineProgress(size, 0, files))
