"""Two installations with one repository, such as a machine and its clone: each knows the points that it has made, and
those from before. Neither costs a point of the other one a file.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.points import known, overwritten_files, removal, sweeping
from storage.points.store import StorageFailed, Store
from tests.storage.copied_pairs import CopyingStore, Pair
from tests.storage.played_history import PATHS
from tests.storage.played_runs import ASSIGNMENT, Played, Tree
from tests.storage.stepping import Killed, stepped

trees = st.dictionaries(st.sampled_from(PATHS), st.sampled_from("xy"), min_size=1)
whose = st.integers(0, 1)
backups = st.tuples(whose, trees, st.none() | st.integers(0, 2))
removals = st.tuples(whose, st.sets(st.integers(0, 4)), st.none())


class Installation(Played):
    """One that shares the repository at `root` with another one."""

    def __init__(self, root: Path, ours: Mapping[str, list[str]] | None = None) -> None:
        super().__init__(root)
        self.ours = dict(ours or {})
        self.killed = set[str]()

    def run(self, tree: Tree, runs: int, ends_after: int | None = None) -> str:
        self.runs = runs
        name = self.back_up(tree, ends_after=ends_after)
        if self.manifest(name).exists():
            self.ours[name] = [known.digest_of(self.manifest(name))]
            sweeping.sweep_left(stepped(self.root, known=self.ours), ASSIGNMENT)
        else:
            self.killed.add(name)
        return name

    def remove(self, numbers: set[int]) -> None:
        there = [each for each in self.points() if each in self.ours]
        goes = [each for number, each in enumerate(there[:-1]) if number in numbers]
        if there:
            removal.remove(stepped(self.root, known=self.ours), ASSIGNMENT, goes)
        self.ours = {each: digests for each, digests in self.ours.items() if each in self.points()}

    def _base(self) -> str:
        return next((each for each in self.points()[::-1] if each in self.ours), "")

    def _left(self, base: str) -> dict[str, tuple[str, str]]:
        found = super()._left(base)
        return {place: facts for place, facts in found.items() if place[:16] in self.killed}


def check(both: tuple[Installation, Installation]) -> None:
    for each in both:
        for point in each.points():
            if point in each.expected:
                assert each.restored(point) == each.expected[point], point


@example({"a": "x", "A": "y"}, [(1, {"a": "x"}, None), (0, {"a": "x", "A": "y"}, None), (1, {0}, None)])
@given(trees, st.lists(backups | backups | removals, min_size=4, max_size=14))
def test_neither_costs_a_point_of_the_other_one_a_file(first: Tree, story: list[tuple[int, Any, int | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = Installation(Path(folder))
        one.run(first, 1)
        both = one, Installation(Path(folder), one.ours)
        for number, (who, what, ends_after) in enumerate(story, start=2):
            if isinstance(what, dict):
                both[who].run(what, number, ends_after)
            else:
                both[who].remove(what)
            check(both)


@pytest.mark.parametrize("other", ["copies", "removes", "removes at last"])
def test_a_copy_whose_files_another_run_may_have_deleted_makes_no_point(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair.below(tmp_path, "remote")
    module, name = (known, "keep") if other == "removes at last" else (overwritten_files, "look")
    whole = getattr(module, name)
    names = [pair.first.back_up({"a": each, "b": "b"}) for each in ("b", "a")]
    pair.copy()
    names.append(pair.first.back_up({"a": "a", "b": "c"}))

    def then_the_other(*facts: Any) -> Any:
        if name == "keep" and facts[1].endswith(known.OF_A_MARK):
            return whole(*facts)
        monkeypatch.undo()
        if other == "copies":
            pair.first.back_up({"a": "d", "b": "b"})
            hidden = pair.first.manifest(names[2]).rename(tmp_path / "hidden")
            pair.copy()
            hidden.rename(pair.first.manifest(names[2]))
        else:
            removal.remove(stepped(pair.second.root), ASSIGNMENT, [names[1]])
        return whole(*facts)

    monkeypatch.setattr(module, name, then_the_other)
    with pytest.raises(StorageFailed, match="in the meantime"):
        pair.copy()
    pair.check()
    pair.copy()
    pair.check()


@pytest.mark.parametrize("step", ["look", "keep"])
@pytest.mark.parametrize("before", [0, 1])
def test_a_copy_from_which_everything_is_removed_in_the_meantime_fails(
    before: int, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair.below(tmp_path, "remote")
    for _ in range(before):
        pair.first.back_up({"a": "b", "b": "b"})
        pair.copy()
    pair.first.back_up({"a": "a", "b": "b"})
    module = overwritten_files if step == "look" else known
    whole = getattr(module, step)

    def remove_all(*facts: Any) -> Any:
        if step == "look" or not facts[1].endswith(known.OF_A_MARK):
            monkeypatch.undo()
            removal.remove_all(stepped(pair.second.root), ASSIGNMENT)
        return whole(*facts)

    monkeypatch.setattr(module, step, remove_all)
    with pytest.raises(StorageFailed, match="removed"):
        pair.copy()
    assert pair.second.points() == []
    pair.copy()
    pair.check()


@pytest.mark.parametrize("brings", ["a", "ab", ""])
def test_a_copied_point_whose_copy_was_killed_before_its_last_look_counts_only_if_its_files_are_there(
    brings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair.below(tmp_path, "remote")
    first, base = [pair.first.back_up({"a": each, "b": each, "c": "c"}) for each in ("b", "a")]
    pair.copy()
    newest = pair.first.back_up({"a": "a", "b": "a", "c": "c"} | dict.fromkeys(brings, "new"))

    def remove_base(store: Store, file: Path, path: str, **how: bool) -> None:
        monkeypatch.undo()
        removal.remove(stepped(pair.second.root), ASSIGNMENT, [base])
        store.put(file, path)
        raise Killed

    monkeypatch.setattr(CopyingStore, "put_last", remove_base)
    with pytest.raises(Killed):
        pair.copy()
    ours = {each: [known.digest_of(pair.second.manifest(each))] for each in pair.second.points()}
    assert list(ours) == [first, newest]
    _, copied = pair.copy(known=ours, recorded=[first])
    assert bool(copied) is (brings != "ab")
    assert pair.second.points()[-1] == newest
    pair.check()
