"""The files that a run finds and leaves in the folder of its assignment."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from engines.at_repositories import point_upkeep
from engines.base import Verdict
from storage import layout
from storage.folders import flushing
from storage.places import location, remotes
from storage.places.identity import Identity, digest_of
from storage.places.location import Location
from storage.places.locks import locked
from storage.points import manifests, removal, runs
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.restoring import into_folder
from storage.restoring.base import Wish
from tests.engines.locations import SERVED, location_of
from tests.engines.peers import back_up, held, local_folder, run, small_disk, task_for, write_files
from tests.programs import needed
from tests.storage.repositories import KEY, encrypted
from tests.waiting import PATIENCE

ASSIGNMENT, BEGAN = "nas-7/nightly", datetime(2026, 3, 1, 9, tzinfo=UTC)
SEALED = 48
"""Bytes by which a small file is longer when it is encrypted."""


def test_a_disk_that_tells_cases_apart_has_no_point_of_a_known_name_in_another_case(tmp_path: Path) -> None:
    name = layout.name_of(BEGAN)
    store = Store(location.of_directory(tmp_path), Event(), known={name: ["digest"]})
    write_files(tmp_path / ASSIGNMENT, **{f"{layout.MANIFESTS}/{name.lower()}{layout.MANIFEST_ENDING}": "x"})
    write_files(tmp_path / ASSIGNMENT, **{f"{layout.FILES}/{name.lower()}.2/a": "x"})
    assert not store.manifest(ASSIGNMENT, name, tmp_path / "manifest")
    assert (runs.points(store, ASSIGNMENT), runs.runs_with_files(store, ASSIGNMENT)) == ([], set())
    write_files(tmp_path / ASSIGNMENT, **{f"{layout.MANIFESTS}/{name}{layout.MANIFEST_ENDING}": "x"})
    assert runs.points(store, ASSIGNMENT) == [name]


def test_what_a_killed_writer_left_goes_a_day_later_and_what_is_being_written_stays(tmp_path: Path) -> None:
    store = Store(location.of_directory(tmp_path), Event())
    (file := tmp_path / "file").touch()
    names = [".a.0123abcd.new", ".b.0123abcd.new", ".other.new"]
    for name in names:
        (tmp_path / name).touch()
    os.utime(tmp_path / names[0], (0, 0))
    os.utime(tmp_path / names[2], (0, 0))
    store.put(file, "b")
    assert sorted(os.listdir(tmp_path)) == [*names[1:], "b", "file"]


@pytest.mark.parametrize("kind", ["plain", *(pytest.param(each, marks=pytest.mark.slow) for each in SERVED)])
def test_a_file_that_is_fetched_is_not_an_earlier_one_of_its_size_and_time(kind: str, tmp_path: Path) -> None:
    with location_of(kind, tmp_path / "repository") as place:
        store, fetched = Store(place, Event()), tmp_path / "fetched"
        for name in ("one", "two"):
            write_files(tmp_path, **{name: name})
            os.utime(tmp_path / name, (1_700_000_000, 1_700_000_000))
            store.put(tmp_path / name, f"nas-7/{name}")
        for name in ("one", "two", "one"):
            assert store.fetch(f"nas-7/{name}", fetched)
            assert fetched.read_text() == name
        assert not store.fetch("nas-7/three", fetched)
        assert not fetched.exists()


def header(base: str = "") -> manifests.Header:
    return manifests.Header("nas", "local", "nightly", "rclone", "v1.75.2", "", "", base=base)


def test_on_a_remote_an_engine_that_wakes_late_makes_no_point_and_one_whose_base_has_gone_begins_again(
    tmp_path: Path,
) -> None:
    """Its machine was frozen for longer than its lease, and another run has begun meanwhile."""
    store = Store(Location(str(tmp_path), str(tmp_path)), Event())
    first = runs.begin(store, ASSIGNMENT, BEGAN)
    runs.write_point(store, ASSIGNMENT, first.name, header(), [])
    frozen = runs.begin(store, ASSIGNMENT, BEGAN + timedelta(days=2))
    runs.mark(store, ASSIGNMENT, frozen.name, header())
    runs.check_base(store, ASSIGNMENT, frozen)
    late = runs.begin(store, ASSIGNMENT, BEGAN + timedelta(days=3))
    assert (late.base, late.left) == (first.name, (frozen.name,))
    runs.mark(store, ASSIGNMENT, late.name, header())
    with pytest.raises(StorageFailed, match="another run has taken over"):
        runs.check_base(store, ASSIGNMENT, frozen)
    runs.write_point(store, ASSIGNMENT, late.name, header(), [])
    runs.end(store, ASSIGNMENT, late.name)
    with pytest.raises(StorageFailed, match="another run has taken over"):
        runs.check_base(store, ASSIGNMENT, frozen)
    last = runs.begin(store, ASSIGNMENT, BEGAN + timedelta(days=4))
    store.remove(layout.manifest_path(ASSIGNMENT, late.name))
    with pytest.raises(runs.BaseGone):
        runs.check_base(store, ASSIGNMENT, last, is_marked=False)


def test_a_mark_that_lies_far_ahead_or_is_forged_is_nothing_to_a_run(tmp_path: Path) -> None:
    store = Store(location.of_directory(tmp_path), Event(), known={})
    runs.mark(
        store, ASSIGNMENT, "20991121T065755Z", header(), [manifests.Entry("a", size=1, folder="20991121T065755Z")]
    )
    begun = runs.begin(store, ASSIGNMENT, BEGAN)
    assert begun.name == layout.name_of(BEGAN)
    runs.check_base(store, ASSIGNMENT, begun)
    for each in begun.left:
        with runs.marked(store, ASSIGNMENT, each) as found:
            assert found is None, "our database does not know it"


@pytest.mark.parametrize("at", ["files/20261121T065755Z", "files", "manifests", "files/20261121T065755Z.0"])
def test_no_backup_writes_through_a_link_that_lies_in_its_repository(tmp_path: Path, at: str) -> None:
    """Who can write to a repository's folder, and to a source, would write any file of the worker's host."""
    victim, link = tmp_path / "victim", tmp_path / "copy" / at
    victim.mkdir()
    write_files(tmp_path / "in", job="* * * * * root touch /tmp/x")
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    result = back_up(local_folder(tmp_path / "in"), tmp_path / "copy")
    assert [*victim.iterdir()] == []
    assert (result.verdict, f"{link} is a link" in result.error) == (Verdict.REPOSITORY_FAILED, True), result.error


@pytest.mark.parametrize("to", ["its manifest elsewhere", "nothing", "a folder"])
def test_a_link_in_the_place_of_a_manifest_is_a_damaged_manifest_and_is_not_followed(tmp_path: Path, to: str) -> None:
    copy, elsewhere = tmp_path / "copy", tmp_path / "elsewhere"
    write_files(tmp_path / "in", a="a", b="b")
    first, second = [
        back_up(local_folder(tmp_path / "in"), copy, started_at=BEGAN + timedelta(days=each)) for each in (0, 1)
    ]
    manifest = tmp_path / layout.manifest_path("copy", second.snapshot)
    manifest.rename(elsewhere)
    if to != "its manifest elsewhere":
        elsewhere.unlink()
    if to == "a folder":
        write_files(elsewhere, victim="x")
    manifest.symlink_to(elsewhere)
    third = back_up(local_folder(tmp_path / "in"), copy, started_at=BEGAN + timedelta(days=2))
    assert (third.verdict, third.added) == (Verdict.WARNINGS, first.added), third
    assert "cannot be read" in str(third.warnings)
    store = Store(location.of_directory(tmp_path), Event())
    removed = removal.remove(store, "copy", [second.snapshot])
    assert (removed.points, runs.points(store, "copy")) == ((second.snapshot,), [first.snapshot, third.snapshot])
    assert [held(copy, each.snapshot) for each in (first, third)] == [{"a": "a", "b": "b"}] * 2
    manifest.symlink_to(elsewhere)
    removal.remove_all(store, "copy")
    assert (copy.exists(), elsewhere.exists()) == (False, to != "nothing")


def test_nothing_is_deleted_through_a_link_that_lies_in_a_repository(tmp_path: Path) -> None:
    """It would have been put in the place of a folder, for the day on which retention deletes what that holds."""
    write_files(tmp_path / "etc", passwd="root")
    run = tmp_path / "vault" / ASSIGNMENT / layout.FILES / "20260301T090000Z"
    write_files(run, **{"own/file": "x"})
    (run / "etc").symlink_to(tmp_path / "etc")
    store = Store(location.of_directory(tmp_path / "vault"), Event())
    names = [f"{run.name}/etc/passwd", f"{run.name}/own/file"]
    store.delete(layout.files_path(ASSIGNMENT), names)
    assert ((tmp_path / "etc/passwd").exists(), (run / "own/file").exists()) == (True, False)


@pytest.mark.parametrize("name", ["20260301T090199Z", "20260301T090000Z-999999999", "２０２６０３０１T０８５９００Z"])
def test_a_folder_that_no_run_of_ours_made_gives_its_name_to_none(tmp_path: Path, name: str) -> None:
    """Else the next point had a name that no reader takes for one."""
    (tmp_path / ASSIGNMENT / layout.FILES / name).mkdir(parents=True)
    store = Store(location.of_directory(tmp_path), Event(), known={})
    begun = runs.begin(store, ASSIGNMENT, BEGAN)
    assert begun.name == layout.name_of(BEGAN)
    assert layout.by_time([f"{begun.name}-2", begun.name]) == [begun.name, f"{begun.name}-2"]


def test_a_run_is_later_than_a_lost_point_whose_name_is_ahead_of_the_clock(tmp_path: Path) -> None:
    (tmp_path / ASSIGNMENT).mkdir(parents=True)
    store = Store(location.of_directory(tmp_path), Event())
    lost = layout.name_of(BEGAN + timedelta(days=300))
    begun = runs.begin(store, ASSIGNMENT, BEGAN, lost)
    assert begun.lost == lost
    assert layout.is_later(begun.name, lost)


@pytest.mark.parametrize("takes", [True, False])
def test_a_point_is_made_when_the_disk_has_taken_its_files(
    takes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, store = list[bool](), Store(location.of_directory(tmp_path), Event())
    name = layout.name_of(BEGAN, ())
    manifest = tmp_path / layout.manifest_path(ASSIGNMENT, name)

    def flushed(folder: Path, stop: object, since: object) -> None:
        assert folder == tmp_path
        seen.append(manifest.exists())
        if not takes:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("storage.points.store.flush", flushed)
    with nullcontext() if takes else pytest.raises(OSError, match="Input/output"):
        runs.write_point(store, ASSIGNMENT, name, header(), [])
    assert (seen, runs.points(store, ASSIGNMENT)) == (([False, True], [name]) if takes else ([False], []))


@pytest.mark.usefixtures("waits_for_disks")
def test_a_flush_ends_when_the_disk_has_it_or_the_run_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("written")
    flushing.flush(tmp_path, Event())
    with pytest.raises(FileNotFoundError):
        flushing.flush(tmp_path / "gone", Event())
    stopped, done = Event(), Event()
    stopped.set()
    monkeypatch.setattr(flushing, "_flush", lambda folder, since: done.wait(PATIENCE))
    with pytest.raises(StorageStopped):
        flushing.flush(tmp_path, stopped)
    done.set()


REFUSED = "Input/output error|No space left"
"""The words of the disk below; its kernel passes on either."""


@pytest.fixture
def thin_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 60 MB that says it has room, on a disk that takes a fifth of it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(tmp_path / "below", 12 * 2**20) as below:
        with (below / "image").open("wb") as image:
            image.truncate(60 * 2**20)
        for command in (
            (needed("mkfs.ext4", "e2fsprogs"), "-q", "-O", "^has_journal", str(below / "image")),
            ("mount", "-o", "loop", str(below / "image"), str(disk)),
        ):
            if subprocess.run(command, check=False, capture_output=True).returncode:
                pytest.skip("this account may not mount a file system here")
        try:
            yield disk
        finally:
            subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.usefixtures("waits_for_disks")
def test_what_the_disk_did_not_take_is_told_to_each_run_that_wrote(thin_disk: Path) -> None:
    """Another one, which ends at the same time, asks first."""
    place = location.of_directory(thin_disk)
    with locked(place, ASSIGNMENT) as lock:
        store = Store(place, Event(), inherited=lock)
        begun = runs.begin(store, ASSIGNMENT, BEGAN)
        (thin_disk / "fetched").write_bytes(os.urandom(30 * 2**20))
        with pytest.raises(OSError, match=REFUSED):
            flushing.flush(thin_disk, Event())
        flushing.flush(thin_disk, Event())
        with pytest.raises(OSError, match=REFUSED):
            runs.write_point(store, ASSIGNMENT, begun.name, header(), [])
    assert runs.points(store, ASSIGNMENT) == []


@pytest.mark.parametrize("is_encrypted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_the_disk_did_not_take_is_fetched_again(
    is_encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel has it in memory as it should be, and says nothing of it any more."""
    files, home = write_files(tmp_path / "files", a="a", b="bb"), write_files(tmp_path / "repository")
    place = encrypted(location.of_directory(home)) if is_encrypted else location.of_directory(home)
    task = task_for(local_folder(files), home / ASSIGNMENT, location=place, folder=ASSIGNMENT)

    def refused(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr("storage.points.store.flush", refused)
        assert run(task).verdict is Verdict.REPOSITORY_FAILED
    spoil(home, "bb")
    result = run(task)
    assert (result.verdict, bool(result.read)) == (Verdict.SUCCEEDED, True)
    report = into_folder.restore(Wish(ASSIGNMENT, result.snapshot, tmp_path / "back"), Store(place, Event()), tmp_path)
    assert (report.failed, (tmp_path / "back/b").read_text()) == ([], "bb")


def spoil(home: Path, text: str) -> None:
    """Make of all files that hold this text, or where they are encrypted, so many bytes, what a disk has of them."""
    sizes = (len(text), SEALED + len(text))
    for file in (each for each in home.rglob("*") if each.is_file() and each.stat().st_size in sizes):
        times = file.stat()
        file.write_bytes(b"\0" * times.st_size)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("is_encrypted", [False, True])  # a plain one is compared with its digests in any case
def test_what_the_disk_of_a_copy_did_not_take_is_copied_again(
    is_encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, first, second = (write_files(tmp_path / each) for each in ("files", "first", "second"))
    write_files(files, a="a", b="bb")
    place = location.of_directory(first)
    point = run(task_for(local_folder(files), first / ASSIGNMENT, location=place, folder=ASSIGNMENT)).snapshot
    target = remotes.location_of(str(second), {}, {}, KEY if is_encrypted else None)
    order = {"location": place.as_json(), "folder": ASSIGNMENT, "target": target.as_json(), "newest": point}
    ours = asdict(Identity("1f8a", "office", is_encrypted, digest_of(KEY if is_encrypted else None)))
    order |= {"ours": ours, "made": False, "again": [], "damaged": {}, "bandwidth": "", "zone": "UTC", "reserve": 0.0}
    flushes = []

    def refused(*_: object) -> None:
        flushes.append(_)
        if len(flushes) == 1:
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr("storage.points.store.flush", refused)
        assert "Input/output" in point_upkeep.copy_points(**order)["problem"]
    spoil(second, "bb")
    copied = point_upkeep.copy_points(**order)
    assert (copied["new"], copied["wrong"]) == ([point], [])
    report = into_folder.restore(Wish(ASSIGNMENT, point, tmp_path / "back"), Store(target, Event()), tmp_path / "trees")
    assert (report.failed, (tmp_path / "back/b").read_text()) == ([], "bb")
