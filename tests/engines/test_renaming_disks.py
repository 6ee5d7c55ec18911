"""A repository on a disk that gives files other names, or other times, than it is given: each is kept, comes back as it
was, and is copied once."""

import os
import shutil
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import EngineResult, Verdict
from engines.rclone import bringing, misplaced, transfer
from engines.rclone.bringing import Problems
from engines.rclone.run import RcloneRun
from storage import layout
from storage.places.location import of_directory
from storage.points import checking, copying, removal, runs
from storage.points.store import Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.peers import STARTED_AT, back_up, local_folder, point, sftp_host, write_files
from tests.engines.small_trees import seen
from tests.storage.renaming_disk import AS_GIVEN, NAMES, renaming_disk
from tests.storage.repositories import encrypted

pytestmark = pytest.mark.slow
FOLDER = "nas-7/nightly"
TREE = {"é/ü": "accents", "plain": "p", "Case": "c", "dot.": "d", "sub./x ": "both", "a:b": "one", "a_b": "two"}


def stored(disk: Path) -> list[str]:
    files = disk / FOLDER / "files"
    return sorted(str(each.relative_to(files)) for each in files.rglob("*") if each.is_file())


@pytest.mark.parametrize("kind", NAMES)
def test_a_disk_that_renames_keeps_each_file_and_takes_none_a_second_time(kind: str, tmp_path: Path) -> None:
    files = write_files(tmp_path / "source", **TREE)
    for each in files.rglob("*"):
        os.utime(each, (1_700_000_000, 1_700_000_000))  # `a:b` and `a_b` differ by their content alone
    first = seen(files)
    with renaming_disk(tmp_path / "renaming", kind) as disk:
        store, copies = Store(of_directory(disk), Event()), Store(of_directory(tmp_path / "copies"), Event())

        def backed_up(day: int) -> EngineResult:
            newest = next(iter(runs.points(store, FOLDER)[::-1]), "")
            at = STARTED_AT + timedelta(days=day)
            return back_up(
                local_folder(files), disk, location=store.location, folder=FOLDER, started_at=at, newest=newest
            )

        def restored(name: str, source: Store) -> object:
            target = tmp_path / "restored"
            report = restore(Wish(FOLDER, name, target), source, tmp_path / "cache")
            found = seen(target)
            for each in (target, tmp_path / "cache"):
                shutil.rmtree(each, ignore_errors=True)
            return report.failed, found

        made = backed_up(0)
        assert (made.verdict, made.files, made.new) == (Verdict.SUCCEEDED, len(TREE), len(TREE)), made
        assert restored(made.snapshot, store) == ([], first)
        (files / "plain").write_text("new")
        (files / "é/ö").write_text("new as well")
        changed = backed_up(1)
        assert (changed.verdict, changed.new, changed.changed, changed.unchanged) == (Verdict.SUCCEEDED, 1, 1, 6)
        now = stored(disk)
        again = backed_up(2)
        assert (again.verdict, again.read, again.unchanged, stored(disk)) == (Verdict.SUCCEEDED, 0, 8, now), again
        checked = checking.check(store, FOLDER, part="", after="", total=0, share=1.0)
        assert (checked.damaged, checked.files) == ([], 9)
        copied = copying.copy(store, copies, FOLDER)
        assert (copied.wrong, len(copied.new)) == ([], 3)
        for place in (store, copies):
            assert restored(made.snapshot, place) == ([], first)
            assert restored(again.snapshot, place) == ([], seen(files))
            removal.remove(place, FOLDER, [made.snapshot, changed.snapshot])
            assert restored(again.snapshot, place) == ([], seen(files))
        held = {each.place for each in point(tmp_path / "copies" / FOLDER, again.snapshot).values() if each.folder}
        assert len(stored(disk)) == len(held) == 8, "nothing else stays"


def test_a_file_is_not_kept_with_the_content_of_one_that_overwrote_it_and_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path / "source", a_b="two", **{"a:b": "one"})
    for each in files.iterdir():
        os.utime(each, (1_700_000_000, 1_700_000_000))

    def overwriting(*given: Any) -> Problems:
        problems = bring(*given)
        (disk / FOLDER / "files" / made_by / "a_b").write_text("one")  # whichever of the two came last
        os.utime(disk / FOLDER / "files" / made_by / "a_b", (1_700_000_000, 1_700_000_000))
        return problems

    def without_it(run: RcloneRun, pairs: list[tuple[str, str]], **how: Any) -> Problems:
        (files / "a:b").unlink(missing_ok=True)
        return bring_renamed(run, pairs, **how)

    bring, bring_renamed, made_by = bringing.bring, transfer.bring_renamed, layout.name_of(STARTED_AT)
    monkeypatch.setattr(bringing, "bring", overwriting)
    monkeypatch.setattr(transfer, "bring_renamed", without_it)
    with renaming_disk(tmp_path / "renaming", "replaces") as disk:
        store = Store(of_directory(disk), Event())
        made = back_up(local_folder(files), disk, location=store.location, folder=FOLDER)
        assert (made.verdict, made.snapshot) == (Verdict.WARNINGS, made_by), made
        report = restore(Wish(FOLDER, made.snapshot, tmp_path / "restored"), store, tmp_path / "cache")
        assert (report.failed, [each.name for each in (tmp_path / "restored").iterdir()]) == ([], ["a_b"])
        assert (tmp_path / "restored/a_b").read_text() == "two"
        assert point(disk / FOLDER, made.snapshot)["a:b"].why


@pytest.mark.parametrize(("is_encrypted", "grain"), [(False, 1), (False, 2), (True, 2)])
def test_a_disk_with_coarse_times_gets_each_file_once_and_grows_by_manifests_alone(
    is_encrypted: bool, grain: int, tmp_path: Path
) -> None:
    files = write_files(tmp_path / "source", **TREE)
    for number, each in enumerate(files.rglob("*")):
        os.utime(each, ns=(1, 1_700_000_001_987_654_321 + number))
    os.utime(files / "plain", (1, 1))  # before FAT begins
    with renaming_disk(tmp_path / "coarse", AS_GIVEN, grain) as disk, sftp_host(files) as source:
        location = encrypted(of_directory(disk)) if is_encrypted else of_directory(disk)
        before = set[Path]()
        for day in range(3):
            at = STARTED_AT + timedelta(days=day)
            result = back_up(source, disk, location=location, folder=FOLDER, started_at=at)
            assert (result.verdict, result.files) == (Verdict.SUCCEEDED, len(TREE)), result
            now = {each for each in disk.rglob("*") if each.is_file()}
            assert (result.unchanged, len(now - before) == 1) == ((len(TREE), True) if day else (0, False)), result
            before = now


TWINS = {"upper-case": ("README", "Readme"), "decomposes": ("e\u0301/x", "\u00e9/x"), "trims": ("x", "x.")}


@pytest.mark.parametrize("kind", TWINS)
def test_a_restore_to_such_a_disk_replaces_no_file_of_its_point_with_another_one(kind: str, tmp_path: Path) -> None:
    first, second = TWINS[kind]
    files = write_files(tmp_path / "source", **{first: "one", second: "two", "other": "three"})
    for each in files.rglob("*"):
        os.utime(each, (1_700_000_000, 1_700_000_000))
    store = Store(of_directory(tmp_path / "copies"), Event())
    made = back_up(local_folder(files), tmp_path, location=store.location, folder=FOLDER)
    with renaming_disk(tmp_path / "renaming", kind) as disk:
        for number, overwrite in enumerate((False, True)):
            target = disk / f"RESTORED-{number}"
            for _ in range(2):
                report = restore(Wish(FOLDER, made.snapshot, target, overwrite=overwrite), store, tmp_path / "cache")
                overwrite = True
                assert [each.partition(" under")[0] for each in report.failed] == [
                    f"{second}: its disk keeps it and {first!r}"
                ]
                assert ((target / first).read_text(), (target / "other").read_text()) == ("one", "three")
    report = restore(Wish(FOLDER, made.snapshot, tmp_path / "restored"), store, tmp_path / "cache")
    assert (report.failed, seen(tmp_path / "restored")) == ([], seen(files))


@pytest.mark.parametrize(
    "why",
    [
        "api error KeyTooLongError: Your key is too long",
        "The maximum object length is 1024 characters, but got a name with 1028: '6/vault/d33a3e49-a588-210e', invalid",
        "RESPONSE 400: 400 One of the request inputs is out of range.\nERROR CODE: OutOfRangeInput",
        "The specified resource name length is not within the permissible limits.",
        "Object name length of 1141 longer than 1024",
        "The file name is too long",
    ],
)
def test_the_words_of_servers_for_a_name_that_is_too_long_are_known(why: str) -> None:
    problems = Problems({"a": why, "b": "the file is too large: 1 GB at most", "c": "Request Entity Too Large"})
    assert misplaced.refused(problems) == {"a"}
