"""Whatever was backed up, removed and killed: every point that is kept has its files, and no other file stays."""

import contextlib
import shutil
import tempfile
from itertools import combinations
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import layout
from storage.places import location
from storage.points import known, removal, sweeping
from storage.points.store import StorageFailed, Store
from tests.storage.played_history import PATHS, check, played_at, points_of, unnamed
from tests.storage.played_runs import ASSIGNMENT, Played, files_below
from tests.storage.renaming_disk import NAMES, renaming_disk
from tests.storage.stepping import Killed, stepped

trees = st.dictionaries(st.sampled_from(PATHS), st.sampled_from("xyz"), min_size=2)
links = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(PATHS), max_size=2)
seldom = st.sampled_from((False,) * 4 + (True,))
ends = st.sampled_from((None,) * 4 + (0, 1, 3))
backups = st.tuples(st.just("back up"), st.tuples(trees, links, seldom), ends)
removals = st.tuples(st.just("remove"), st.sets(st.integers(0, 4), min_size=1), st.none() | st.integers(0, 40))
sweeps = st.tuples(st.just("sweep"), st.none(), st.none() | st.integers(0, 20))
"""As a backup does at its end."""


def play(played: Played, story: list[tuple[Any, ...]]) -> None:
    for what, facts, limit in story:
        if what == "back up":
            tree, linked, is_dump = facts
            played.back_up(tree, linked=linked, is_dump=is_dump, ends_after=limit)
        elif what == "sweep":
            with contextlib.suppress(Killed):
                sweeping.sweep_left(stepped(played.root, limit), ASSIGNMENT)
        elif len(played.points()) > 1:
            chosen = points_of(played, facts)
            for left in [None] if limit is None else [limit, None]:
                try:
                    removed = removal.remove(stepped(played.root, left), ASSIGNMENT, chosen)
                except Killed:
                    check(played)
            assert list(removed.present) == played.points()
            assert not {*chosen} & {*removed.present}
            assert unnamed(played) == set()
        check(played)


@given(st.lists(backups | backups | removals | sweeps, min_size=6, max_size=16))
def test_every_kept_point_has_its_files_and_nothing_else_stays(story: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play(Played(Path(folder)), story)


@pytest.mark.slow
def test_a_disk_that_lost_what_it_had_not_synced_has_each_point_whole_or_not_at_all(tmp_path: Path) -> None:
    """Cut after each operation of a removal, and without each of those that were not synced, or any two of them."""
    before = played_at(tmp_path / "before")
    points, cuts = before.points(), 0
    shutil.copytree(before.root, tmp_path / "removed")
    store = stepped(tmp_path / "removed")
    removal.remove(store, ASSIGNMENT, points[1:3])
    assert {what for what, _, _ in store.done} == {"flush", "put", "delete"}
    for cut in range(len(store.done) + 1):
        synced = max((at + 1 for at, each in enumerate(store.done[:cut]) if each[0] == "flush"), default=0)
        loose = range(synced, cut)
        for dropped in {(), tuple(loose), *combinations(loose, 1), *combinations(loose, 2)}:
            cuts += 1
            after = Played(tmp_path / f"{cut}-{dropped}", expected=before.expected)
            shutil.copytree(before.root, after.root, dirs_exist_ok=True)
            for at, (what, path, content) in enumerate(store.done[:cut]):
                if what == "put" and at not in dropped:
                    (after.root / path).write_bytes(content or b"")
                elif what == "delete" and at not in dropped:
                    (after.root / path).unlink(missing_ok=True)
            check(after)
            assert {*after.points()} >= {points[0], *points[3:]}
            removal.remove(stepped(after.root), ASSIGNMENT, points[1:3])
            check(after)
            assert unnamed(after) == set()
            shutil.rmtree(after.root)
    assert cuts > 50


def test_marks_that_were_forged_cost_no_file_that_a_point_names(tmp_path: Path) -> None:
    played = played_at(tmp_path)
    points = played.points()
    removal.remove(stepped(tmp_path), ASSIGNMENT, [points[1]])
    under_way = played.back_up({"new": "n", "other": "o"}, ends_after=1)
    for number, name in enumerate([*points, "20200101T000000Z", "99991130T235959Z", "20261103T065755Z-2"]):
        for ending in sweeping.MARKS[number % 2 :]:
            (played.folder / layout.MANIFESTS / (name + ending)).write_text("forged")
        (played.folder / layout.MANIFESTS / f"{name}.5f{layout.AMISS}").write_text("forged")
    (theirs := played.files / "theirs").mkdir()
    (theirs / "note").touch()
    sweeping.sweep_left(stepped(tmp_path), ASSIGNMENT)
    check(played)
    removal.remove(stepped(tmp_path), ASSIGNMENT, [])
    check(played)
    assert files_below(played.folder / layout.MANIFESTS) == {
        *(each + layout.MANIFEST_ENDING for each in played.points()),
        *("99991130T235959Z" + ending for ending in (*sweeping.MARKS, f".5f{layout.AMISS}")),
        under_way + layout.UNFINISHED,
    }
    assert played.unnamed() == {"theirs/note", f"{under_way}/new"}


@pytest.mark.parametrize("how", ["damaged", "lost", "changed"])
def test_a_sweep_deletes_nothing_that_a_point_may_name_which_cannot_be_read(how: str, tmp_path: Path) -> None:
    """Once it is put back it finds its files."""
    played = played_at(tmp_path)
    points = played.points()
    ours = {each: [known.digest_of(played.manifest(each))] for each in points}
    content = (manifest := played.manifest(points[3])).read_bytes()
    marks = [played.folder / layout.MANIFESTS / f"{points[number][:-3]}00Z{layout.REMOVING}" for number in (1, 3)]
    for each in marks:
        each.touch()
    if how == "damaged":
        manifest.write_bytes(content[:-20])
    elif how == "lost":
        manifest.unlink()
    else:
        shutil.copyfile(played.manifest(points[2]), manifest)
    removal.remove(stepped(tmp_path, known=None if how == "damaged" else ours), ASSIGNMENT, [])
    manifest.write_bytes(content)
    check(played)
    assert marks[0].exists(), "it is looked again"
    removal.remove(stepped(tmp_path, known=ours), ASSIGNMENT, [])
    assert (unnamed(played), len(played.points())) == (set(), 5)


@pytest.mark.parametrize("beside", [1, 3], ids=["before", "after"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["damaged", "lost"])
def test_a_neighbour_that_cannot_be_read_is_named_and_one_point_beside_it_stays(
    beside: int, is_lost: bool, tmp_path: Path
) -> None:
    """It is whole once it is put back, as from the copy, which has the same one."""
    played = Played(tmp_path)
    points = [played.back_up({"a": each, each: each, "b": "xy"[each > "w"]}) for each in "uvwxyz"]
    goes = {1: points[:1] + points[2:5], 3: points[1:3]}[beside]
    broken = points[beside]
    content = (manifest := played.manifest(broken)).read_bytes()
    manifest.write_bytes(content[:-20])
    if is_lost:
        manifest.unlink()
    stay = [each for each in points if each not in (*goes, broken)]
    expected = {each: played.expected[each] for each in points}
    if is_lost:
        assert removal.remove(stepped(tmp_path), ASSIGNMENT, goes, stay=[broken, *stay]).points == ()
    for _ in range(2):
        how = {"stay": stay, "lost": [broken]} if is_lost else {"stay": [broken, *stay]}
        found = removal.remove(stepped(tmp_path), ASSIGNMENT, goes, **how)
        stays = {1: [*points[:1], points[2]], 3: points[2:3]}[beside]
        assert (found.damaged, {*found.present} - {broken}) == ((broken,), {*stay, *stays})
    manifest.write_bytes(content)
    assert {each: played.restored(each) for each in played.points()} == {
        each: expected[each] for each in (points if beside else ()) if each in (*found.present, broken)
    }
    removal.remove(stepped(tmp_path), ASSIGNMENT, goes, stay=[broken, *stay])
    assert (played.points(), unnamed(played)) == ([each for each in points if each not in goes], set())


def test_a_point_that_is_damaged_goes_and_what_it_alone_named_is_swept(tmp_path: Path) -> None:
    played = played_at(tmp_path)
    damaged = played.points()[3]
    own, manifest = played.place(damaged, "a"), played.manifest(damaged)
    manifest.write_bytes(manifest.read_bytes()[:-20])
    found = removal.remove(stepped(tmp_path), ASSIGNMENT, [damaged])
    assert (found.points, found.damaged) == ((damaged,), ())
    check(played)
    assert unnamed(played) == set()
    assert not own.exists()


def test_a_point_that_came_between_costs_no_other_one_a_file(tmp_path: Path) -> None:
    """One of a run that our database had forgotten: the next one took over nothing from it."""
    played = Played(tmp_path)
    first = played.back_up({"a": "1", "b": "1", "c": "1"})
    between = played.back_up({"b": "2", "c": "1"})
    hidden = played.manifest(between).rename(tmp_path / "hidden")
    later = played.back_up({"a": "1", "b": "3"})
    last = [played.back_up({"a": "1", "b": each}) for each in "45"]
    hidden.rename(played.manifest(between))
    ours = {each: [known.digest_of(played.manifest(each))] for each in played.points()}
    foreign = {name: digests for name, digests in ours.items() if name != between}
    shutil.copytree(tmp_path, still_foreign := tmp_path.with_name("foreign"))
    assert played.place(later, "a") == played.place(first, "a")
    removal.remove(stepped(tmp_path, known=ours), ASSIGNMENT, [first])
    check(played)
    found = removal.remove(stepped(tmp_path, known=ours), ASSIGNMENT, [later])
    assert (found.present, found.damaged) == ((between, later, *last), ()), "by it is seen that one came between"
    removal.remove(stepped(tmp_path, known=ours), ASSIGNMENT, [between, later])
    assert (played.points(), unnamed(played)) == (last, set())

    other = Played(still_foreign, expected=played.expected)
    removal.remove(stepped(other.root, known=foreign), ASSIGNMENT, [first, last[0]])
    check(other)
    assert other.points() == [between, later, last[1]]


def test_no_point_is_removed_when_none_would_stay(tmp_path: Path) -> None:
    played = Played(tmp_path)
    point = played.back_up({"a": "x"})
    with pytest.raises(StorageFailed, match="no point of nas-7/nightly would stay"):
        removal.remove(stepped(tmp_path), ASSIGNMENT, [point])
    assert played.points() == [point]


def test_a_listing_that_spells_a_name_in_another_way_costs_no_file(tmp_path: Path) -> None:
    """As that of a disk that folds case, or decomposes accents."""
    played = played_at(tmp_path)
    (lies := played.place(played.points()[2], "ä")).rename(lies.with_name("A\u0308"))
    (played.folder / layout.MANIFESTS / f"20261101T065755Z{layout.REMOVING}").touch()
    removal.remove(stepped(tmp_path), ASSIGNMENT, [])
    assert lies.with_name("A\u0308").exists()
    assert unnamed(played) == {lies.relative_to(played.files).parent.joinpath("A\u0308").as_posix()}


PAIRS = {"decomposes": ("e\u0301", "\u00e9"), "replaces": ("a:b", "a_b")}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_file_that_a_disk_keeps_under_two_names_stays_as_long_as_a_point_names_one(kind: str, tmp_path: Path) -> None:
    """The disk has the content of the one that came last."""
    gone, stays = PAIRS[kind]
    with renaming_disk(tmp_path / "renaming", kind) as disk:
        played = Played(disk)
        first = played.back_up({gone: "1", stays: "2", "other": "3"})
        last = [played.back_up({stays: "2", "new": each}) for each in "45"]
        assert played.place(first, stays) == played.place(last[1], stays)
        found = removal.remove(Store(location.of_directory(disk), Event()), ASSIGNMENT, [first])
        assert (found.present, found.damaged) == (tuple(last), ())
        check(played)
        assert files_below(played.files) == {f"{first}/{NAMES[kind](stays)}", *(f"{each}/new" for each in last)}
        assert not [*played.folder.glob(f"{layout.MANIFESTS}/*{layout.REMOVING}")]
