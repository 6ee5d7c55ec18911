"""A repository in which a folder is exchanged for a link while a process works there."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from engines.repository_process import PROGRAM
from external.processes.orders import Order, give
from storage.places.location import Location
from storage.points.known import OF_A_MARK
from storage.points.store import Store
from tests.storage.played_runs import ASSIGNMENT
from tests.waiting import PATIENCE


def ordered(do: str, kept: Callable[[Any], object] = lambda facts: True, **facts: Any) -> dict[str, Any]:
    return dict(give(Order(PROGRAM, do, facts), Event(), silent_for=PATIENCE, grace=8.0, kept=kept))


class Swapped:
    """A folder of an assignment, made and exchanged for a link to the folder `behind`, as soon as the mark of a run
    names that run. `path`: below the folder of the assignment; `RUN` is its name."""

    def __init__(self, place: Location, path: str, behind: Path) -> None:
        self.store, self.path, self.behind, self.link = Store(place, Event()), path, behind, Path()
        behind.mkdir()

    def __call__(self, facts: dict[str, str]) -> bool:
        if facts["point"].endswith(OF_A_MARK) and not self.link.is_symlink():
            before = self._folders()
            path = self.path.replace("RUN", facts["point"].removesuffix(OF_A_MARK))
            self.store.run("mkdir", self.store.location.at(f"{ASSIGNMENT}/{path}"))
            self.link = max(self._folders() - before)  # its names are encrypted, too
            self.link.rmdir()
            self.link.symlink_to(self.behind)
        return True

    def _folders(self) -> set[Path]:
        top = str(self.store.location.directory)
        return {Path(above, each) for above, names, _ in os.walk(top) for each in names}
