"""The power goes after any operation of a backup or a copy in a folder, and the disk has lost some or all of what was
not synced: each point is whole or absent, and the next run is whole."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest

from engines.base import Verdict
from engines.rclone import bringing, transfer
from storage.places.location import of_directory
from storage.points import copying, removal, runs
from storage.points.store import Store
from tests.engines.peers import back_up, held, local_folder, points, write_files

pytestmark = [pytest.mark.slow, pytest.mark.long]

FOLDER = "nas"
BEGAN = datetime(2100, 1, 1, tzinfo=UTC)
"""After whatever these tests write, so that no file is doubtful, and what is as it was is taken over."""
State = dict[str, tuple[bytes, int]]
"""Content and time of each file."""
LOST, EMPTY = "lost", "empty"
"""The contents that a disk may have of a file that was written and not synced: nothing, or its size and time."""


class Operation(NamedTuple):
    """`content`: None: deleted; `is_safe`: synced before it got its name. A flush has no path."""

    path: str = ""
    content: tuple[bytes, int] | None = None
    is_safe: bool = False


@dataclass
class Recorded:
    """The steps in a folder, file by file."""

    top: Path
    state: State = field(default_factory=dict)
    done: list[Operation] = field(default_factory=list)

    @contextmanager
    def recording(self) -> Iterator[State]:
        """Yields the folder as it is before."""
        self.state, self.done = state_of(self.top), []
        with pytest.MonkeyPatch.context() as patch:
            for name in ("put", "remove", "delete", "remove_empty_folders", "copy_out", "flush"):
                patch.setattr(Store, name, self._noting(getattr(Store, name), name))
            patch.setattr(bringing, "bring", self._noting(bringing.bring, "bring"))
            patch.setattr(transfer, "bring_renamed", self._noting(transfer.bring_renamed, "bring"))
            yield dict(self.state)

    def _noting(self, do: Callable[..., Any], name: str) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            if name == "flush":
                self.done += [Operation()] if given[0].location.directory == self.top else []
                return None
            result = do(*given, **named)
            now = state_of(self.top)
            for path in sorted(now.keys() | self.state.keys()):
                if now.get(path) != self.state.get(path):
                    self.done.append(Operation(path, now.get(path), name == "put"))
            self.state = now
            return result

        return noted


def state_of(top: Path) -> State:
    files = (each for each in top.rglob("*") if each.is_file() and each.name != "lock")
    return {str(each.relative_to(top)): (each.read_bytes(), each.stat().st_mtime_ns) for each in files}


def crashed(before: State, done: list[Operation]) -> Iterator[tuple[State, bool]]:
    """Each state that a disk may have, once; and whether all or none of what was not synced is lost in it, or all but
    the marks of runs."""
    seen = list[State]()
    for cut in range(len(done) + 1):
        synced = max((at + 1 for at, each in enumerate(done[:cut]) if not each.path), default=0)
        loose = range(synced, cut)
        whole = {(), tuple(loose), tuple(at for at in loose if not done[at].is_safe)}
        for dropped in sorted(whole | {*combinations(loose, 1), *combinations(loose, 2)}):
            for how in (LOST, EMPTY) if dropped else (LOST,):
                state = dict(before)
                for at, (path, content, is_safe) in enumerate(done[:cut]):
                    if not path or (at in dropped and (content is None or how == LOST or is_safe)):
                        continue
                    if content is None:
                        state.pop(path, None)
                    else:
                        state[path] = (bytes(len(content[0])), content[1]) if at in dropped else content
                if state not in seen:
                    seen.append(state)
                    yield state, dropped in whole


def write(top: Path, state: State) -> None:
    shutil.rmtree(top, ignore_errors=True)
    for path, (content, time) in state.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(content)
        os.utime(top / path, ns=(time, time))
    top.mkdir(exist_ok=True)


def check(folder: Path, expected: dict[str, dict[str, str]]) -> None:
    for point in points(folder):
        assert held(folder, point) == expected[point], point


@dataclass
class History:
    """A source with three states, of which the first two are backed up."""

    top: Path
    expected: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source, self.repository = self.top / "source", self.top / "repository"
        files = {"a": "one", "A": "twin", "same/x": "same", "dot.": "renamed", "gone": "gone"}
        write_files(self.source, **files)
        os.link(self.source / "a", self.source / "linked")
        self.back_up()
        write_files(self.source, **{"a": "two", "new/y": "new"})
        (self.source / "gone").unlink()
        self.back_up()
        write_files(self.source, **{"a": "three", "A": "other twin", "new/y": "newer", "dot.": "once more", "b": "b"})

    def back_up(self, boot: str = "first") -> str:
        at = BEGAN + timedelta(days=len(self.expected))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "boot", lambda: boot)
            result = back_up(local_folder(self.source), self.repository / FOLDER, started_at=at)
        assert result.verdict is Verdict.SUCCEEDED, result
        files = (each for each in self.source.rglob("*") if each.is_file())
        self.expected[result.snapshot] = {str(each.relative_to(self.source)): each.read_text() for each in files}
        return result.snapshot


def test_a_backup_that_the_power_cuts_leaves_each_point_whole_or_absent(tmp_path: Path) -> None:
    history, cuts, again = History(tmp_path), 0, 0
    recorded, earlier = Recorded(history.repository), dict(history.expected)
    with recorded.recording() as before:
        history.back_up()
    for state, is_tried in crashed(before, recorded.done):
        cuts += 1
        write(history.repository, state)
        assert {*points(history.repository / FOLDER)} >= earlier.keys()
        check(history.repository / FOLDER, history.expected)
        if is_tried:
            again += 1
            newest = history.back_up("second")
            check(history.repository / FOLDER, history.expected)
            assert points(history.repository / FOLDER)[-1] == newest
    assert (cuts > 80, again > 10) == (True, True), (cuts, again, recorded.done)


def test_a_copy_that_the_power_cuts_leaves_each_point_whole_or_absent(tmp_path: Path) -> None:
    history, cuts, again = History(tmp_path), 0, 0
    source, copies = Store(of_directory(history.repository), Event()), tmp_path / "copies"
    copies.mkdir()
    copy = Store(of_directory(copies), Event())
    copying.copy(source, copy, FOLDER)
    history.back_up()
    removal.remove(source, FOLDER, points(history.repository / FOLDER)[:1])
    history.back_up()
    recorded = Recorded(copies)
    with recorded.recording() as before:
        copying.copy(source, copy, FOLDER)
    whole = points(copies / FOLDER)
    assert len(whole) == 4
    for state, is_tried in crashed(before, recorded.done):
        cuts += 1
        write(copies, state)
        assert points(copies / FOLDER)[:2] == whole[:2]
        check(copies / FOLDER, history.expected)
        if is_tried:
            again += 1
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(runs, "boot", lambda: "second")
                copying.copy(source, copy, FOLDER)
            check(copies / FOLDER, history.expected)
            assert points(copies / FOLDER) == whole
    assert (cuts > 80, again > 10) == (True, True), (cuts, again, recorded.done)
