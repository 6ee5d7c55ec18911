"""A repository of either format as a parameter of tests: plain, or of restic."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import BackupTask, EngineProgress, EngineResult, SourceSpec
from storage.places.location import RCLONE, RESTIC, Location, of_directory
from storage.points import runs
from storage.points.store import Store
from storage.restoring import into_folder
from storage.restoring.base import Report, Wish
from storage.stores import store_of
from tests.engines import restic_runs
from tests.engines.peers import STARTED_AT, run, task_for
from tests.engines.restic_runs import FOLDER
from tests.programs import needs_restic

FORMATS = [
    pytest.param(RCLONE, id="plain"),
    pytest.param(RESTIC, id="restic", marks=[pytest.mark.slow, needs_restic]),
]
in_each_format = pytest.mark.parametrize("format", FORMATS)


@dataclass
class RepositoryHere:
    """A repository in a folder of this host, which the engines of its format write, a point a day."""

    format: str
    home: Path
    runs: int = 0

    def __post_init__(self) -> None:
        if not self.is_restic:
            self.directory.mkdir()

    @property
    def is_restic(self) -> bool:
        return self.format == RESTIC

    @property
    def directory(self) -> Path:
        return self.home / f"{self.format} repository"

    @property
    def location(self) -> Location:
        return restic_runs.location_at(self.directory) if self.is_restic else of_directory(self.directory)

    @property
    def store(self) -> Store:
        return store_of(self.location, Event())

    def task(self, source: SourceSpec, **fields: Any) -> BackupTask:
        """The backup of the next day."""
        at = STARTED_AT.replace(day=STARTED_AT.day + self.runs)
        self.runs += 1
        usual = {"location": self.location, "folder": FOLDER, "staging": str(self.home / "staging"), "started_at": at}
        return task_for(source, self.directory, **usual | fields)

    def back_up(
        self, source: SourceSpec, on_progress: Callable[[EngineProgress], None] = lambda seen: None, **fields: Any
    ) -> EngineResult:
        return (restic_runs.back_up if self.is_restic else run)(self.task(source, **fields), on_progress)

    def points(self) -> list[str]:
        return runs.points(self.store, FOLDER)

    def restored(self, target: Path, point: str = "") -> Report:
        """The newest point, or another one."""
        wish = Wish(FOLDER, point or self.points()[-1], target)
        return into_folder.restore(wish, self.store, self.home / "cache")
