"""Whatever was backed up, removed, copied and killed: every point of the first repository and of the copy restores."""

import contextlib
import errno
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import layout
from storage.points import amiss, removal, runs
from storage.points.store import StorageFailed
from tests.storage.copied_pairs import Pair
from tests.storage.played_history import PATHS, points_of
from tests.storage.played_runs import ASSIGNMENT, files_below
from tests.storage.stepping import Killed, SteppedStore, stepped

KINDS = ("plain", "sealed", "remote")

trees = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["old", "new", "red"]))
links = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(PATHS), max_size=2)
backups = st.tuples(st.just("back up"), st.tuples(trees, links), st.sampled_from([None, None, 2]))
removals = st.tuples(st.sampled_from(["remove", "remove in the copy"]), st.sets(st.integers(0, 9)), st.just(0))
copies = st.tuples(st.just("copy"), st.just(None), st.none() | st.integers(0, 20))


@given(st.lists(backups | copies | copies | removals, min_size=4, max_size=16), st.sampled_from(KINDS))
def test_every_point_restores_from_both_whatever_was_backed_up_removed_copied_and_killed(
    story: list[tuple[Any, ...]], kind: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair.below(Path(folder), kind)
        for what, facts, limit in [*story, ("back up", ({"a": "x"}, {}), None), ("copy", None, None)]:
            played = pair.second if what == "remove in the copy" else pair.first
            if what == "back up":
                pair.first.back_up(facts[0], linked=facts[1], ends_after=limit)
            elif what == "copy" and pair.first.points():
                named = {each.place for point in pair.second.points() for each in pair.second.entries(point)}
                with contextlib.suppress(Killed):
                    copied, places = pair.copy(limit)
                    assert not copied.wrong
                    assert pair.second.points()[-1] == pair.first.points()[-1]
                    assert len(set(places)) == len(places), "each file once"
                    assert not named.intersection(places), "what a point holds is never written again"
            elif what != "copy" and len(played.points()) > 1:
                removal.remove(stepped(played.root), ASSIGNMENT, points_of(played, facts))
            pair.check()


BEFORE = {"same": "same", "changes": "old", "changes back": "1", "goes": "gone"}
HALF = {"same": "same", "changes": "new", "changes back": "2", "comes": "come", "B": "b", "b": "b"}
AFTER = {"same": "same", "changes": "red", "changes back": "1", "comes": "went", "late": "late", "b": "b"}


@pytest.mark.parametrize("kind", ["plain", *(pytest.param(each, marks=pytest.mark.slow) for each in KINDS[1:])])
@pytest.mark.parametrize("is_removed", [False, True], ids=["and goes on", "and goes on with a later point"])
def test_a_copy_that_is_killed_before_each_of_its_steps_is_finished_by_the_next_one(
    tmp_path: Path, is_removed: bool, kind: str
) -> None:
    for step in range(200):
        pair = Pair.below(tmp_path / f"{step}", kind)
        pair.first.back_up(BEFORE)
        pair.copy()
        half = pair.first.back_up(HALF)
        try:
            pair.copy(step)
            break
        except Killed:
            pair.check()
        if is_removed:
            pair.first.back_up(AFTER)
            removal.remove(stepped(pair.first.root), ASSIGNMENT, [half])
        for again in (step % 7 + 4, None):
            with contextlib.suppress(Killed):
                pair.copy(again)
            pair.check()
        newest = pair.first.points()[-1]
        assert pair.second.points()[-1] == newest
        assert pair.second.unnamed() == set()
        assert not list(pair.second.folder.glob("manifests/*.unfinished"))
    assert 10 < step < 199, "all steps were tried"


def killed_at_the_manifest(pair: Pair) -> str:
    """A copy that has brought all files of a point, with right sizes and other contents. Returns the point."""
    point = pair.first.back_up({"known": "old", "unknown": "new", "unknown too": "red"})
    steps = next(step for step in range(99) if is_all_but_made(pair, point, step))
    assert steps
    for each in pair.second.files.rglob("*known*"):
        each.write_text("???")
    return point


def is_all_but_made(pair: Pair, point: str, step: int) -> bool:
    shutil.rmtree(pair.second.folder)
    pair.second.files.mkdir(parents=True)
    with contextlib.suppress(Killed):
        pair.copy(step)
    return {each.stat().st_size for each in pair.second.files.rglob("*known*")} == {3} and (
        len(files_below(pair.second.files)) == 3
    )


@pytest.mark.parametrize(
    ("kind", "boots", "copied"),
    [
        ("plain", "ab", {"known", "unknown", "unknown too"}),
        ("plain", "aa", {"known"}),
        ("plain", ["", ""], {"known", "unknown", "unknown too"}),
        ("sealed", "ab", {"known", "unknown", "unknown too"}),
        ("sealed", "aa", set()),
        ("remote", "aa", {"known", "unknown", "unknown too"}),
    ],
)
def test_what_a_killed_copy_left_counts_by_digest_or_since_the_host_was_started_or_once_it_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, boots: str, copied: set[str]
) -> None:
    """A power cut may have left files of the right size without their contents."""
    pair = Pair.below(tmp_path, kind)
    monkeypatch.setattr(runs, "boot", lambda: boots[0])
    point = killed_at_the_manifest(pair)
    monkeypatch.setattr(runs, "boot", lambda: boots[1])
    _, places = pair.copy()
    assert set(places) == {f"{point}/{name}" for name in copied}
    if len(copied) == 3:
        pair.check()


@pytest.mark.parametrize("forged", ["foreign", "torn", "lost"])
def test_a_note_lets_no_altered_file_count(forged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note of a file that has gone since is lost: it came again, and the copy was killed."""
    monkeypatch.setattr("external.processes.serving.keep", lambda facts: True)
    pair = Pair.below(tmp_path, "remote")
    point = pair.first.back_up({"known": "old", "unknown": "new", "unknown too": "red"})
    assert next(step for step in range(99) if is_all_but_made(pair, point, step))
    with contextlib.suppress(Killed):
        pair.copy(1)
    [note] = (pair.second.folder / "manifests").glob(f"*{layout.COMPARED}")
    if forged == "torn":
        note.write_bytes(note.read_bytes()[:-8])
    elif forged == "lost":
        shutil.rmtree(pair.second.files / point)
        with contextlib.suppress(Killed):
            pair.copy(8)
        assert len(files_below(pair.second.files)) == 3
    for each in pair.second.files.rglob("*known*"):
        each.write_text("???")
    _, places = pair.copy(known={} if forged == "foreign" else None)
    assert len(places) == 3
    assert not list((pair.second.folder / "manifests").glob(f"*{layout.COMPARED}"))
    pair.check()


def test_what_was_there_before_the_host_was_started_is_not_trusted_by_the_copy_after_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair.below(tmp_path, "sealed")
    monkeypatch.setattr(runs, "boot", lambda: "a")
    killed_at_the_manifest(pair)
    monkeypatch.setattr(runs, "boot", lambda: "b")
    for step in range(6):
        with contextlib.suppress(Killed):
            pair.copy(step)
    pair.copy()
    pair.check()


@pytest.mark.parametrize("content", [b"", b"torn", None], ids=["empty", "torn", "whole"])
def test_a_forged_note_of_a_run_that_is_yet_to_come_costs_no_file_and_goes(
    content: bytes | None, tmp_path: Path
) -> None:
    pair = Pair.below(tmp_path, "remote")
    pair.first.back_up(BEFORE)
    with contextlib.suppress(Killed):
        pair.copy(6)
    first, second = pair.first.files, pair.second.files
    whole = {each for each in files_below(second) if (second / each).read_text() == (first / each).read_text()}
    amiss.note(stepped(pair.second.root), ASSIGNMENT, "21000101T000000Z", whole)
    [note] = (pair.second.folder / "manifests").glob(f"*{layout.AMISS}")
    note.write_bytes(note.read_bytes() if content is None else content)
    _, places = pair.copy()
    assert whole
    assert whole.isdisjoint(places)
    assert not note.exists()
    pair.check()


@pytest.mark.parametrize("step", range(2))
def test_files_that_the_disk_did_not_take_are_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """They are whole in memory, for now."""
    pair = Pair.below(tmp_path)
    pair.first.back_up(BEFORE)
    flushed = []

    def flush(store: SteppedStore) -> None:
        flushed.append(store)
        if len(flushed) > step:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(SteppedStore, "flush", flush)
    with pytest.raises(OSError, match="Input/output"):
        pair.copy()
    monkeypatch.undo()
    assert (pair.second.points(), files_below(pair.second.files)) == ([], set())
    pair.copy()
    pair.check()


@pytest.mark.parametrize("error", [OSError(errno.ENOMEM, "no memory for rclone"), StorageFailed("no answer")], ids=str)
def test_a_point_that_is_there_stays_when_a_copy_on_a_server_fails_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Its answer was lost, or another machine has taken over from one that was frozen."""
    pair = Pair.below(tmp_path, "remote")
    pair.first.back_up(BEFORE)

    def put_last(*_: object, **how: object) -> None:
        monkeypatch.undo()
        pair.copy()
        raise error

    monkeypatch.setattr(SteppedStore, "put_last", put_last)
    with pytest.raises(type(error), match=r"no (memory|answer)"):
        pair.copy()
    assert pair.second.points() == pair.first.points()
    pair.check()


def test_only_what_a_point_of_ours_names_comes_and_the_copy_outlives_what_the_first_one_loses(tmp_path: Path) -> None:
    pair = Pair.below(tmp_path)
    for text in "123":
        pair.first.back_up({"a": text, "same": "x", f"only {text}": text})
        pair.copy()
    first, second, third = pair.second.points()
    removal.remove(stepped(pair.second.root), ASSIGNMENT, [second])
    for point in (second, third):
        pair.first.manifest(point).unlink()
    with pytest.raises(StorageFailed, match="the copy stays as it is"):
        pair.copy(newest=third)
    (pair.first.files / first / "foreign").write_text("x" * 1000)
    last = pair.first.back_up({"a": "4", "same": "x"})
    copied, places = pair.copy(newest=last)
    assert (copied.new, places) == ([last], [f"{last}/a"])
    assert pair.second.points() == [first, third, last]
    for point in (first, third, last):
        assert pair.second.restored(point) == pair.first.expected[point]
    pair.first.manifest(last).write_bytes(b"no manifest")
    pair.first.expected[last] = {}
    later = pair.first.back_up({"a": "5"}, is_dump=True)
    pair.first.back_up({"a": "6"}, is_dump=True)
    pair.first.manifest(later).write_bytes(b"no manifest either")
    copied, places = pair.copy()
    assert (len(copied.new), len(places)) == (1, 1)
    assert [f"point {later} is left out" in each for each in copied.wrong] == [True]


def test_a_file_with_several_names_comes_once_and_not_again_under_another_one(tmp_path: Path) -> None:
    pair = Pair.below(tmp_path, "sealed")
    first = pair.first.back_up({"b": "text", "c": "text"}, linked={"c": "b"})
    assert pair.copy()[1] == [f"{first}/b"]
    second = pair.first.back_up({"b": "text", "d": "text", "e": "text", "n": "n"}, linked={"d": "b", "e": "b"})
    assert {each.place for each in pair.first.entries(second)} == {f"{first}/b", f"{second}/n"}
    assert pair.copy()[1] == [f"{second}/n"]
    third = pair.first.back_up({"d": "text", "f": "text"}, linked={"f": "d"})
    assert {each.place for each in pair.first.entries(third)} == {f"{first}/b"}
    assert pair.copy()[1] == []
    pair.check()
