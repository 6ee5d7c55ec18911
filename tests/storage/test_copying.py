"""Whatever was backed up, removed, copied and killed: every point of the first repository and of the copy restores."""

import dataclasses
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import layout
from storage.places import location
from storage.points import copying, manifests, merging
from tests.storage.played_runs import ASSIGNMENT, Played, Tree, files_below
from tests.storage.test_merging import PATHS, FolderStore, Killed, points_of, without_nesting

QUICK = 10**9


UNKNOWN = ("new", "red")
"""Contents of files whose manifests have neither a digest nor a time, as of those that changed while they came."""


class WithDigests(Played):
    """Contents of one size are told apart, as in real manifests, or not known."""

    def _write_manifest(self, name: str, tree: Tree) -> None:
        super()._write_manifest(name, tree)
        file = self.root / layout.manifest_path(ASSIGNMENT, name)
        header = manifests.read_header(file)
        entries = [
            each if tree[each.path] in UNKNOWN else each.with_digest(digest_of(tree[each.path]), "copy")
            for each in manifests.read(file)
        ]
        manifests.write(file, header, entries)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class CopyingStore(FolderStore):
    """Two of them make a copy. A file that was killed may be there with some of its bytes, as on servers that know no
    partial names."""

    def __init__(self, root: Path, stop: Event) -> None:
        super().__init__(root)
        self.location, self.stop, self.other = location.of_directory(root), stop, self

    def put(self, file: Path, path: str) -> None:
        self._step()
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, self.root / path)

    put_last = put

    def fetch(self, path: str, file: Path, most: int = 0) -> bool:
        return (self.root / path).exists() and super().fetch(path, file)

    def remove(self, path: str) -> None:
        self._step()
        (self.root / path).unlink(missing_ok=True)

    def sizes(self, path: str, paths: Collection[str] | None = None) -> dict[str, int]:
        return super().sizes(path)

    def digests(self, path: str, paths: Collection[str]) -> dict[str, str]:
        there = [each for each in paths if (self.root / path / each).is_file()]
        return {each: digest_of((self.root / path / each).read_text()) for each in there}

    def run(self, *arguments: str, **facts: Any) -> bool:
        return True  # no pieces are left

    def copy_out(
        self,
        path: str,
        target: str,
        paths: Collection[str],
        on_progress: Callable[[int, int], None],
        *options: str,
        environment: Any,
        most: int,
    ) -> None:
        for each in paths:
            came, goes = self.root / path / each, Path(target) / each
            if not came.exists():
                continue
            if goes.is_dir():
                shutil.rmtree(goes)
            goes.parent.mkdir(parents=True, exist_ok=True)
            if goes.exists():
                assert "--no-check-dest" not in options, f"{each} is written over"
                if goes.stat().st_size == came.stat().st_size:
                    continue
            self.other._step()
            goes.write_text(came.read_text()[:-1])
            self.other._step()
            shutil.copyfile(came, goes)


@dataclasses.dataclass
class Pair:
    first: WithDigests
    second: WithDigests

    def copy(self, kill_after: int | None) -> None:
        stop = Event()
        source, target = CopyingStore(self.first.root, stop), CopyingStore(self.second.root, stop)
        source.other, target.left = target, QUICK if kill_after is None else kill_after
        copied: Any = copying.copy(source, target, ASSIGNMENT)  # type: ignore[arg-type]
        assert not copied.wrong
        assert copied.points == self.second.points()

    def check(self) -> None:
        for played in (self.first, self.second):
            for point in played.points():
                assert played.restored(point) == self.first.expected[point]


trees = st.lists(st.sampled_from(PATHS), unique=True).map(without_nesting).flatmap(
    lambda paths: st.fixed_dictionaries({path: st.sampled_from(["old", "new", "other"]) for path in paths})
)  # fmt: skip
backups = st.tuples(st.just("back up"), trees, st.sampled_from([None, None, 2, 5]))
removals = st.tuples(st.sampled_from(["remove", "remove in the copy"]), st.sets(st.integers(0, 9)), st.just(0))
copies = st.tuples(st.just("copy"), st.just(None), st.none() | st.integers(3, 40))


@settings(max_examples=20, deadline=None)
@given(st.lists(backups | copies | copies | removals, min_size=6, max_size=16))
def test_every_point_restores_from_both_whatever_was_backed_up_removed_copied_and_killed(
    story: list[tuple[Any, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(WithDigests(Path(folder, "first")), WithDigests(Path(folder, "second")))
        for what, facts, limit in [*story, ("back up", {"a": "x"}, None), ("copy", None, None)]:
            played = pair.second if what == "remove in the copy" else pair.first
            if what == "back up":
                pair.first.back_up(facts, ends_after=limit)
            elif what == "copy" and pair.first.points():
                try:
                    pair.copy(limit)
                except Killed:
                    pass
                else:
                    assert pair.second.points()[-1] == pair.first.points()[-1]
            elif what != "copy" and len(played.points()) > 1:
                store: Any = FolderStore(played.root)
                merging.remove(store, ASSIGNMENT, points_of(played, facts))
            pair.check()
        assert files_below(pair.second.current) == set(pair.first.expected[pair.first.points()[-1]])


BEFORE = {"same": "same", "changes": "old", "changes back": "1", "goes": "gone", "turns": "file"}
HALF = {"same": "same", "changes": "new", "changes back": "2", "comes": "come", "turns/to": "folder"}
AFTER = {"same": "same", "changes": "red", "changes back": "1", "comes": "went", "turns/to": "folder", "late": "late"}


@pytest.mark.parametrize("is_removed", [False, True], ids=["and goes on", "and goes on with a later point"])
def test_a_copy_that_is_killed_before_each_of_its_steps_is_finished_by_the_next_one(
    tmp_path: Path, is_removed: bool
) -> None:
    for step in range(200):
        pair = Pair(WithDigests(tmp_path / f"{step} first"), WithDigests(tmp_path / f"{step} second"))
        pair.first.back_up(BEFORE)
        pair.copy(None)
        half = pair.first.back_up(HALF)
        try:
            pair.copy(step)
            break
        except Killed:
            pair.check()
        if is_removed:
            pair.first.back_up(AFTER)
            merging.remove(FolderStore(pair.first.root), ASSIGNMENT, [half])  # type: ignore[arg-type]
        for again in (step % 7 + 4, None):
            try:
                pair.copy(again)
            except Killed:
                pair.check()
        pair.check()
        newest = pair.first.points()[-1]
        assert pair.second.points()[-1] == newest
        assert {path: (pair.second.current / path).read_text() for path in files_below(pair.second.current)} == (
            pair.first.expected[newest]
        )
    assert 20 < step < 199, "all steps were tried"


def test_what_is_copied_once_more_stays_where_the_first_repository_has_lost_it(tmp_path: Path) -> None:
    pair = Pair(WithDigests(tmp_path / "first"), WithDigests(tmp_path / "second"))
    pair.first.back_up({"a": "text"})
    pair.copy(None)
    (pair.first.current / "a").unlink()
    source, target = CopyingStore(pair.first.root, Event()), CopyingStore(pair.second.root, Event())
    source.other, target.left = target, QUICK
    copying.copy(source, target, ASSIGNMENT, again=["a"])  # type: ignore[arg-type]
    assert (pair.second.current / "a").read_text() == "text"
