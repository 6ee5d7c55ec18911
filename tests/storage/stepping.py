"""A repository that can be killed before any of the steps that change it, and that keeps what these were."""

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from storage.places import location
from storage.points.known import Known
from storage.points.store import Store

FLUSH = ("flush", "", None)


class Killed(Exception):
    pass


@dataclass(frozen=True)
class SteppedStore(Store):
    """The steps of `Store` in a folder, file by file, without a process. `left`: steps before it is killed. `done`:
    each step: flush, put (with its content), delete or rmdir."""

    left: list[int] = field(default_factory=lambda: [10**9])
    done: list[tuple[str, str, bytes | None]] = field(default_factory=list)

    def put(self, file: Path, path: str) -> None:
        self.step("put", path, file.read_bytes())
        super().put(file, path)

    def remove(self, path: str) -> None:
        self.step("delete", path)
        super().remove(path)

    def flush(self) -> None:
        self.step(*FLUSH)

    def delete(self, path: str, paths: Collection[str] | None = None) -> None:
        top = Path(self.location.at(path))
        if paths is None:
            self.step("purge", path)
            shutil.rmtree(top, ignore_errors=True)
        for each in paths or ():
            self.step("delete", f"{path}/{each}")
            (top / each).unlink(missing_ok=True)

    def remove_empty_folders(self, path: str, *, leave_root: bool = True, among: Collection[str] = ()) -> None:
        top = Path(self.location.at(path))
        for each in [top / name for name in among] or [top]:
            for folder, _, _ in os.walk(each, topdown=False):
                if not os.listdir(folder) and (folder != str(top) or not leave_root):
                    self.step("rmdir", os.path.relpath(folder, self.location.root))
                    os.rmdir(folder)

    def step(self, what: str, path: str, content: bytes | None = None) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise Killed
        self.done.append((what, path, content))


def stepped(root: Path, steps: int | None = None, known: Known | None = None) -> SteppedStore:
    left = [10**9 if steps is None else steps]
    return SteppedStore(location.of_directory(root), Event(), known=known, left=left)
