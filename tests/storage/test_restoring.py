"""Restoring a point into a folder."""

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from storage import layout
from storage.points import manifest_index, trees
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.points.trees import NotThere, opened
from storage.restoring import into_folder
from storage.restoring.base import RestoreProgress, RestoreRefused, Wish
from tests.storage import restored_points
from tests.storage.building import ASSIGNMENT, Built, picture
from tests.storage.restored_points import restore

built = restored_points.built


ODD = ("new\nline", '"quoted"', "-dash", "#hash", "; semicolon", " space ", "tab\t", "ünï", "日本", "x" * 250, "sym␊")


def test_every_point_comes_back_with_modes_times_and_links(built: Built, tmp_path: Path) -> None:
    for number, name in enumerate(ODD):
        built.write(f"odd/{name}", f"{number}")
    built.write("docs/a", "first", 0o600)
    built.write("docs/b", "stays", 0o640)
    (built.source / "empty").mkdir()
    (built.source / "link").symlink_to("docs/a")
    (built.source / "loop").symlink_to("loop")
    for number, target in enumerate((b"caf\xe9", b"\xff/\xfe", b"docs/\xed\xa0\x80")):  # not UTF-8
        os.symlink(target, os.fsencode(built.source / f"odd {number}"))
    points = [(built.back_up(), picture(built.source))]
    built.write("docs/a", "second")
    (built.source / "docs/b").unlink()
    built.write("later", "")
    points.append((built.back_up(), picture(built.source)))
    (built.source / "docs/a").unlink()
    built.back_up(fails=True)
    built.write("docs/a", "third")
    points.append((built.back_up(), picture(built.source)))

    for point, expected in points:
        report = restore(built, point, tmp_path / point)
        assert picture(tmp_path / point) == expected
        assert (report.failed, report.not_set) == ([], [])


def test_an_older_program_finds_no_tree_whose_texts_it_would_misread(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.symlink(b"caf\xe9", built.source / "link")
    restore(built, point := built.back_up(), tmp_path / "to")
    look = (built.location, ASSIGNMENT, point, built.folder / "cache", None)
    assert trees.is_cached(*look)
    monkeypatch.setattr(trees, "VERSION", "3")  # of 0.1.0, which would restore the bytes as they are
    assert not trees.is_cached(*look)


@pytest.mark.parametrize("takes", [True, False])
def test_what_is_restored_to_stay_is_on_the_disk_or_said_to_have_failed(
    takes: bool, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built.write("a", "x")
    target, seen = tmp_path / "to", list[bool]()
    wish = Wish(ASSIGNMENT, built.back_up(), target, dry_run=True)

    def flushed(folder: Path, stop: object) -> None:
        assert folder == target
        seen.append((target / "a").exists())
        if not takes:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(into_folder, "flush", flushed)
    into_folder.restore_to_stay(wish, built.store, built.folder / "cache")
    assert seen == []
    report = into_folder.restore_to_stay(replace(wish, dry_run=False), built.store, built.folder / "cache")
    assert (seen, report.files) == ([True], 1)
    why = f"{target}: its disk could not hold everything (Input/output error): {into_folder.ELSEWHERE}"
    assert (report.failed, report.failed_files) == (([], 0) if takes else ([why], 1))


def test_a_folder_that_is_closed_to_others_is_so_from_the_first(built: Built, tmp_path: Path) -> None:
    built.write("closed/within/a", "x")
    (built.source / "closed").chmod(0o500)
    wish, seen = Wish(ASSIGNMENT, built.back_up(), tmp_path / "to"), set[int]()

    def look(step: RestoreProgress) -> None:
        made = (path for path in (tmp_path / "to/closed", tmp_path / "to/closed/within") if path.exists())
        seen.update(path.stat().st_mode & 0o777 for path in made)

    into_folder.restore(wish, built.store, built.folder / "cache", look)
    assert seen == {0o700, 0o755}
    assert (tmp_path / "to/closed").stat().st_mode & 0o777 == 0o500


def test_a_restore_that_was_stopped_goes_on(built: Built, tmp_path: Path) -> None:
    for number in range(5):
        built.write(f"{number}", f"{number}" * 1000)
    point, stop = built.back_up(), threading.Event()
    wish, cache = Wish(ASSIGNMENT, point, tmp_path / "to"), built.folder / "cache"

    with pytest.raises(StorageStopped):
        into_folder.restore(wish, Store(built.location, stop), cache, lambda step: stop.set())
    report = into_folder.restore(wish, built.store, cache)

    assert picture(tmp_path / "to") == picture(built.source)
    assert report.files + report.present == 5


def test_what_is_there_is_not_written_over_unless_asked_for(built: Built, tmp_path: Path) -> None:
    built.write("docs/a", "from the backup")
    point, to = built.back_up(), tmp_path / "to"
    (to / "docs").mkdir(parents=True)
    (to / "docs/a").write_text("mine, and newer")
    (to / "other").write_text("mine")
    before = picture(to)

    with pytest.raises(RestoreRefused, match=r"holds 1 file that differs from this point \(docs/a\)"):
        restore(built, point, to)
    report = restore(built, point, to, dry_run=True)
    assert (report.files, report.collisions, picture(to)) == (1, ["docs/a"], before)

    assert restore(built, point, to, overwrite=True).replaced == 1
    assert ((to / "docs/a").read_text(), (to / "other").read_text()) == ("from the backup", "mine")


@pytest.mark.parametrize("later_ns", [0, 10**9])  # some disks have whole seconds
@pytest.mark.parametrize("among", [False, True])
def test_a_damaged_file_of_the_same_size_and_time_is_replaced_like_any_other(
    among: bool, later_ns: int, built: Built, tmp_path: Path
) -> None:
    built.clock = 1_700_000_000 * 10**9 - 1_000_000_001
    for path in ("docs/a", "docs/b", "other"):
        built.write(path, "whole")
    os.link(built.source / "docs/b", built.source / "docs/c")
    restore(built, point := built.back_up(), to := tmp_path / "to")
    for path in ("docs/a", "docs/b"):
        time = (to / path).stat().st_mtime_ns + later_ns
        (to / path).write_text("wrong")
        os.utime(to / path, ns=(time, time))
    with pytest.raises(RestoreRefused, match=r"holds 3 files that differ from this point \(docs/a, docs/b, docs/c\)"):
        restore(built, point, to, among=among)
    report = restore(built, point, to, overwrite=True, among=among)
    assert (report.replaced, report.files, report.present, report.failed) == (3, 3, 1, [])
    assert picture(to) == picture(built.source)
    assert (to / "docs/b").samefile(to / "docs/c")


def test_nothing_is_written_through_a_link(built: Built, tmp_path: Path) -> None:
    built.write("docs/a", "from the backup")
    point, to, elsewhere = built.back_up(), tmp_path / "to", tmp_path / "elsewhere"
    elsewhere.mkdir()
    to.mkdir()
    (to / "docs").symlink_to(elsewhere)

    restore(built, point, to, overwrite=True)

    assert (list(elsewhere.iterdir()), (to / "docs/a").read_text()) == ([], "from the backup")


def test_paths_are_chosen(built: Built, tmp_path: Path) -> None:
    for path in ("docs/a", "docs/b", "docs-2/c", "top"):
        built.write(path, path)
    point = built.back_up()

    restore(built, point, tmp_path / "to", "docs", "docs/a", "top")

    assert {path for path in picture(tmp_path / "to") if "/" in path or path == "top"} == {"docs/a", "docs/b", "top"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("docs/anual.txt", r"no 'docs/anual.txt' in this point; folder 'docs' has 'docs/annual.txt'"),
        ("dosc/annual.txt", r"it has 'docs'"),
        ("../etc/passwd", "leads out of the source"),
        ("/etc/passwd", "leads out of the source"),
    ],
)
def test_a_path_that_never_was(built: Built, tmp_path: Path, path: str, message: str) -> None:
    built.write("docs/annual.txt", "")
    point = built.back_up()

    with pytest.raises((NotThere, RestoreRefused), match=message):
        restore(built, point, tmp_path / "to", path)
    assert not (tmp_path / "to").exists()


def test_a_target_that_cannot_be_one_is_refused(built: Built, tmp_path: Path) -> None:
    built.write("a", "")
    point, repository = built.back_up(), built.folder / "repository"
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(repository)

    for target, message in (
        (repository / "new", "is in the repository"),
        (tmp_path / "link" / "new", "link is a link"),
        (tmp_path / "to" / ".." / "link", "link is a link"),
        (tmp_path / "file", "is not a directory"),
        (Path("/proc/new"), "cannot be written"),
    ):
        with pytest.raises(RestoreRefused, match=message):
            restore(built, point, target)


def test_each_file_is_asked_for_once_in_lists(built: Built, tmp_path: Path, monkeypatch: Any) -> None:
    """Over many runs, and however many names it has."""
    monkeypatch.setattr(into_folder, "BATCH_FILES", 4)
    for number in range(5):
        built.write(f"{number}", f"{number}")
        built.back_up()
    os.link(built.source / "0", built.source / "z")
    point, asked = built.back_up(), list[list[str]]()

    class Counting(Store):
        def copy_out(self, path: str, target: str, paths: Any, *arguments: Any, **more: Any) -> None:
            assert path == f"{ASSIGNMENT}/{layout.FILES}"
            asked.append(list(paths))
            super().copy_out(path, target, paths, *arguments, **more)

    counting = Counting(built.location, threading.Event())
    into_folder.restore(Wish(ASSIGNMENT, point, tmp_path / "to"), counting, built.folder / "cache")

    places = [built.last[f"{number}"].place for number in range(5)]
    assert [[each for each in batch if each] for batch in asked] == [places[:4], places[4:]]
    assert picture(tmp_path / "to") == picture(built.source)
    assert (tmp_path / "to/0").samefile(tmp_path / "to/z")


def zeroed(data: bytes) -> bytes:
    """All but the page with the schema, as a file system leaves blocks that were not written before a power cut."""
    return data[:4096] + bytes(len(data) - 4096)


def flipped(data: bytes) -> bytes:
    """A byte of the header differs: its row is there, and its value is not JSON."""
    assert b'started_at"2' in data
    return data.replace(b'started_at"2', b"started_at!2")


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:4096], zeroed, lambda data: b"x" * len(data), flipped]
)
def test_a_damaged_cache_of_a_manifest_keeps_no_point_from_its_restore(
    built: Built, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    for number in range(60):
        built.write(f"docs/{number}", f"{number}")
    point, expected, cache = built.back_up(), picture(built.source), tmp_path / "cache"
    store, wish = Store(built.location, Event()), Wish(ASSIGNMENT, point, tmp_path / "a")
    into_folder.restore(wish, store, cache)
    (file,) = cache.glob("*.sqlite3")
    file.write_bytes(damage(file.read_bytes()))

    into_folder.restore(replace(wish, target=tmp_path / "b"), store, cache)
    assert picture(tmp_path / "b") == expected


def test_a_cache_that_turns_out_to_be_damaged_is_said_to_be_and_made_again(built: Built, tmp_path: Path) -> None:
    for number in range(300):
        built.write(f"docs/{number}", "")
    point, cache, store = built.back_up(), tmp_path / "cache", Store(built.location, Event())
    with opened(store, ASSIGNMENT, point, cache) as tree:
        whole = [*tree.below("")]
    (file,) = cache.glob("*.sqlite3")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] + b"\xff" * (len(data) - len(data) // 2))

    with (
        pytest.raises(StorageFailed, match=rf"manifest of point {point} is damaged"),
        opened(store, ASSIGNMENT, point, cache) as tree,
    ):
        assert [*tree.below("")] == whole
    with opened(store, ASSIGNMENT, point, cache) as tree:
        assert [*tree.below("")] == whole


@pytest.mark.parametrize(
    "change", ["UPDATE entries SET attributes = '{\"x', why = 'x'", "UPDATE entries SET parent = 77, why = 'x'"]
)
def test_a_row_of_a_cache_that_is_damaged_is_a_fault_of_the_cache_and_made_again(
    change: str, built: Built, tmp_path: Path
) -> None:
    built.write("docs/a", "")
    point, cache, store = built.back_up(), tmp_path / "cache", Store(built.location, Event())
    with opened(store, ASSIGNMENT, point, cache) as tree:
        whole = [*tree.below("")]
    (file,) = cache.glob("*.sqlite3")
    with contextlib.closing(sqlite3.connect(file)) as rows, rows:
        rows.execute(change)
    with (
        pytest.raises(StorageFailed, match=rf"manifest of point {point} is damaged"),
        opened(store, ASSIGNMENT, point, cache) as tree,
    ):
        list(tree.exceptions())
    with opened(store, ASSIGNMENT, point, cache) as tree:
        assert [*tree.below("")] == whole


def test_a_cache_for_which_there_is_no_room_is_named_and_leaves_nothing(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point, cache = built.back_up(), tmp_path / "cache"
    monkeypatch.setattr(manifest_index, "SCHEMA", f"PRAGMA max_page_count = 3; {manifest_index.SCHEMA}")
    with pytest.raises(OSError, match="No space left on device") as refused:
        into_folder.restore(Wish(ASSIGNMENT, point, tmp_path / "to"), Store(built.location, Event()), cache)
    assert refused.value.filename == str(cache)
    assert [*cache.iterdir()] == []
