"""Whatever was backed up, removed and killed: every point that is kept restores byte for byte."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import layout
from storage.places import location
from storage.points import merging
from storage.points.store import StorageFailed, Store
from tests.engines.peers import small_disk
from tests.storage.played_runs import ASSIGNMENT, Played, files_below, move, remove_empty_folders

PATHS = ("a", "a/b", "a/b/c", "a/d", "e", "f/g")


class Killed(Exception):
    pass


class FolderStore:
    """What `Store` does, file by file, without a process: it can be killed before any of `steps`."""

    known = None

    def __init__(self, root: Path) -> None:
        self.root, self.left = root, 10**9

    def names(self, path: str, *, folders: bool = False) -> list[str]:
        self._step()
        folder = self.root / path
        return [each.name for each in folder.iterdir() if each.is_dir() == folders] if folder.exists() else []

    def sizes(self, path: str) -> dict[str, int]:
        self._step()
        return {each: (self.root / path / each).stat().st_size for each in files_below(self.root / path)}

    def fetch(self, path: str, file: Path, most: int = 0) -> bool:
        self._step()
        shutil.copyfile(self.root / path, file)
        return True

    def ours(self, points: Iterable[str]) -> list[str]:
        return list(points)

    def manifest(self, assignment: str, point: str, file: Path) -> bool:
        return self.fetch(layout.manifest_path(assignment, point), file)

    def move(self, source: str, target: str, paths: Collection[str]) -> None:
        for path in paths:
            self._step()
            move_from, move_to = self.root / source / path, self.root / target / path
            assert not move_to.exists(), f"{path} is written over"
            move_to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(move_from, move_to)
            self._step()  # a bucket knows no rename
            move_from.unlink()

    def delete(self, path: str, paths: Collection[str] | None = None) -> None:
        self._step()
        for each in sorted(files_below(self.root / path)) if paths is None else paths:
            self._step()
            (self.root / path / each).unlink(missing_ok=True)
        if paths is None:
            shutil.rmtree(self.root / path, ignore_errors=True)

    def remove_empty_folders(self, path: str, *, leave_root: bool = True) -> None:
        self._step()
        folder = self.root / path
        remove_empty_folders(folder)
        if not leave_root and folder.exists() and not any(folder.iterdir()):
            folder.rmdir()

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


def without_nesting(paths: Collection[str]) -> list[str]:
    """No file in the place of a folder."""
    return [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]


trees = st.lists(st.sampled_from(PATHS), unique=True).map(without_nesting).flatmap(
    lambda paths: st.fixed_dictionaries({path: st.sampled_from("xyz") for path in paths})
)  # fmt: skip
backups = st.tuples(st.just("back up"), trees, st.none() | st.integers(0, 8))
removals = st.tuples(st.just("remove"), st.sets(st.integers(0, 9)), st.none() | st.integers(0, 60))


def points_of(played: Played, numbers: Collection[int]) -> list[str]:
    """Of the points, those of these numbers; never the newest one."""
    return [name for number, name in enumerate(played.points()[:-1]) if number in numbers]


def check(played: Played) -> None:
    for point in played.points():
        assert played.restored(point) == played.expected[point]


@settings(max_examples=40, deadline=None)
@given(st.lists(backups | removals, min_size=2, max_size=14))
def test_every_kept_point_restores_whatever_was_removed_and_killed(story: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        played = Played(Path(folder))
        for what, facts, limit in story:
            if what == "back up":
                played.back_up(facts, ends_after=limit)
            elif len(played.points()) > 1:
                store: Any = FolderStore(played.root)
                chosen = points_of(played, facts)
                for store.left in [10**9] if limit is None else [limit, 10**9]:
                    try:
                        removed = merging.remove(store, ASSIGNMENT, chosen)
                    except Killed:
                        check(played)
                assert list(removed.present) == played.points()
                assert not {*chosen} & {*removed.present}
                assert_merged(played)
            check(played)


def assert_merged(played: Played) -> None:
    """Up to the newest point there is a folder for each point but the oldest at the most."""
    points = played.points()
    runs = {run.name for run in played.folder.glob(f"{layout.VERSIONS}/*")}
    assert {run for run in runs if layout.order_of(run) <= layout.order_of(points[-1])} <= {*points[1:]}


@dataclass(frozen=True)
class Interrupted(Store):
    """The real one, killed before one of its calls."""

    left: list[int] = field(default_factory=lambda: [10**9])

    def run(self, *arguments: str, **options: Any) -> bool:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise Killed
        return super().run(*arguments, **options)


@pytest.mark.slow
def test_rclone_removes_a_point_whatever_it_is_killed_before(tmp_path: Path) -> None:
    played = Played(tmp_path)
    odd = "-new 'quoted'\\ ␤ line"
    played.back_up({"a": "old", "b/c": "1", odd: "1", "kept": "k"})
    removed = played.back_up({"a/x": "in place of a file", "b/c": "2", odd: "2", "kept": "k"})
    played.back_up({"a": "half done"}, ends_after=3)
    played.back_up({"a": "file again", "b": "in place of a folder", odd: "3", "kept": "k"})
    (played.folder / "versions/a note of a person").mkdir()
    dump = played.folder / layout.POINTS / removed / "globals.sql"
    move(played.folder / "current/kept", dump)
    dump.with_name("sub").mkdir()
    shutil.copy(dump, played.folder / "current/kept")
    for calls in count(1, 2):
        store = Interrupted(location.of_directory(tmp_path), Event(), left=[calls])
        try:
            found = merging.remove(store, ASSIGNMENT, [removed])
        except Killed:
            check(played)
        else:
            break
        check(played)
    assert (calls > 6, len(found.present), dump.parent.exists()) == (True, 2, False)
    check(played)
    assert {path.name for path in (played.folder / "versions").iterdir()} == {found.present[-1], "a note of a person"}


def test_what_rclone_cannot_find_by_the_name_that_it_lists_is_not_lost(tmp_path: Path) -> None:
    played, listed = Played(tmp_path), "gro\ufffd"
    played.back_up({listed: "1", "a": "1"})
    removed = played.back_up({listed: "2", "a": "2"})
    played.back_up({listed: "2", "a": "3"})
    version = played.folder / layout.VERSIONS / removed
    (version / listed).rename(odd := version / os.fsdecode(b"gro\xdf"))
    merging.remove(Store(location.of_directory(tmp_path), Event()), ASSIGNMENT, [removed])
    assert odd.read_text() == "1"


def test_no_point_is_removed_when_none_would_stay(tmp_path: Path) -> None:
    played = Played(tmp_path)
    point = played.back_up({"a": "x"})
    with pytest.raises(StorageFailed, match="no point of nas-7/nightly would stay"):
        merging.remove(Store(location.of_directory(tmp_path), Event()), ASSIGNMENT, [point])
    assert played.points() == [point]


def test_a_damaged_manifest_beside_removed_points_is_named_and_only_its_neighbour_stays(tmp_path: Path) -> None:
    played = Played(tmp_path)
    points = [played.back_up({"a": each, each: each}) for each in "uvwxyz"]
    damaged = tmp_path / layout.manifest_path(ASSIGNMENT, points[1])
    damaged.write_bytes(damaged.read_bytes()[:-20])
    played.expected.pop(points[1])
    for _ in range(2):
        found = merging.remove(Store(location.of_directory(tmp_path), Event()), ASSIGNMENT, points[:1] + points[2:5])
        assert (found.damaged, found.present) == ((points[1],), (points[1], points[2], points[5]))
        assert played.points() == [*found.present]
        for point in found.present[1:]:
            assert played.restored(point) == played.expected[point]
    versions = {path.name for path in (played.folder / layout.VERSIONS).iterdir()}
    assert versions == {points[2], points[5]}


def test_what_lies_behind_a_lost_manifest_is_there_when_that_is_put_back(tmp_path: Path) -> None:
    """As from the copy, which has the same one."""
    played = Played(tmp_path)
    points = [played.back_up({"a": each, each: each}) for each in "uvwxyz"]
    goes, lost, stays = points[:2] + points[3:4], points[2], points[4:]
    dump = played.folder / layout.POINTS / lost / "database.dump"
    dump.parent.mkdir(parents=True)
    dump.write_text("whole")
    manifest = tmp_path / layout.manifest_path(ASSIGNMENT, lost)
    content = manifest.read_bytes()
    manifest.unlink()
    store = Store(location.of_directory(tmp_path), Event())
    assert merging.remove(store, ASSIGNMENT, goes, stay=[lost, *stays]).points == (), "it was not known to be lost"
    found = merging.remove(store, ASSIGNMENT, goes, stay=stays, lost=[lost])
    assert (found.points, found.present) == ((*goes[:2],), (points[3], *stays)), "the one after it stays"
    manifest.write_bytes(content)
    assert {point: played.restored(point) for point in played.points()} == {
        point: played.expected[point] for point in (lost, points[3], *stays)
    }
    assert dump.read_text() == "whole"
    merging.remove(store, ASSIGNMENT, [lost, points[3]], stay=stays)
    assert not dump.exists()


@pytest.mark.slow
def test_a_full_disk_is_emptied(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2**20) as disk:
        played = Played(disk)
        for content in "xyz":
            played.back_up({"large": content * 200_000, "small": content})
        with contextlib.suppress(OSError), (disk / "full").open("wb") as file:
            while True:
                file.write(b"x")
                file.flush()
        removed = merging.remove(Store(location.of_directory(disk), Event()), ASSIGNMENT, played.points()[1:2])
        assert removed.freed > 200_000
        check(played)
