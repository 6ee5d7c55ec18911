"""Faults with the real programs: what comes of each, and that the next run and a restore make good."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import EngineProgress, EngineResult, SourceSpec, Verdict
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import Judgement
from engines.restores import drilling
from engines.restores.drilling import Scratch
from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points import removal
from storage.points.store import StorageFailed, Store
from storage.restoring import into_folder
from storage.restoring.base import Wish
from tests.engines.peers import local_folder, run, sftp_host, small_disk, task_for, tree, write_files
from tests.engines.served import KEY, serving
from tests.processes import below
from tests.storage.building import picture
from tests.storage.repositories import encrypted, webdav

pytestmark = pytest.mark.slow

SLOW = {"bwlimit": "200K", "transfers": 1}
FOLDER = "nas-7/nightly"


def back_up(
    source: SourceSpec,
    location: Location,
    on_progress: Callable[[EngineProgress], object] = lambda _: None,
    **fields: object,
) -> EngineResult:
    return run(task_for(source, Path(FOLDER), location=location, folder=FOLDER, **fields), on_progress)


def restored(location: Location, point: str, scratch: Path) -> dict[str, str]:
    target = scratch / f"restored-{point}"
    report = into_folder.restore(Wish(FOLDER, point, target), Store(location, Event()), scratch / "trees")
    assert report.failed == []
    return tree(target)


@contextlib.contextmanager
def repository(kind: str, directory: Path) -> Iterator[Location]:
    directory.mkdir()
    with webdav(directory) if "remote" in kind else contextlib.nullcontext(of_directory(directory)) as location:
        yield encrypted(location) if "encrypted" in kind else location


@pytest.mark.parametrize("kind", ["plain", "encrypted remote"])
def test_odd_names_and_contents_are_kept(kind: str, tmp_path: Path) -> None:
    long, fits = "n" * 250, "f" * 140
    files = write_files(
        tmp_path / "files",
        **{"a\nb": "line", "q'\"\\": "quotes", "-rf": "dash", "empty": "", "#x": "hash", long: "long", fits: "fits"},
    )
    (files / "loop").mkdir()
    (files / "loop/up").symlink_to("..")
    with (files / "sparse").open("wb") as sparse:
        sparse.truncate(5_000_000)
    not_utf_8 = (b"loop/bad\xff", b"fol\xe9der/in", b"fol\xe9der/\xe9\xff\n", b"\xed\xa0\x80")
    quoting = ("tick\u201b", "\u201bE9", "\u201b\u201b\u201bE9", "fold\u201ber/\u201b\u2401", "\ufffd")
    for each in (*map(os.fsdecode, not_utf_8), *quoting):
        write_files(files, **{each: repr(each)})
    before = tree(files)
    with repository(kind, tmp_path / "copies") as location:
        result = back_up(local_folder(files), location)
        assert result.verdict is Verdict.SUCCEEDED, result
        assert restored(location, result.snapshot, tmp_path) == before
        result = back_up(local_folder(files), location)
        assert (result.verdict, result.new, result.changed, result.read) == (Verdict.SUCCEEDED, 0, 0, 0), result
        assert restored(location, result.snapshot, tmp_path) == before
        assert (tmp_path / f"restored-{result.snapshot}/loop/up").is_symlink()


def kill(word: str) -> Callable[[EngineProgress], None]:
    """Kill the programs below this process that have this word among their arguments, at the first bytes."""

    def on_progress(progress: EngineProgress) -> None:
        if progress.bytes_done:
            for process in below(word, part="rclone"):
                process.kill()

    return on_progress


@pytest.mark.parametrize(
    "fault", ["engine killed", "source killed", "repository killed", "repository full", "vanishes"]
)
def test_after_a_fault_in_mid_copy_the_next_run_is_whole(fault: str, tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", note="one", gone="soon", **{"a/deep": "deep"})
    steps: dict[str, tuple[Verdict, str, Callable[[EngineProgress], None]]] = {
        "engine killed": (Verdict.SOURCE_FAILED, "ended by signal 9", kill("copy")),
        "source killed": (Verdict.UNAVAILABLE, "does not answer", kill("sftp")),
        "repository killed": (Verdict.REPOSITORY_FAILED, "", kill("webdav")),
        "repository full": (Verdict.REPOSITORY_FAILED, "no space left", lambda _: None),
        "vanishes": (Verdict.WARNINGS, "", lambda seen: seen.bytes_done and (files / "zz").unlink(missing_ok=True)),
    }
    verdict, text, on_progress = steps[fault]
    with contextlib.ExitStack() as stack:
        copies = tmp_path / "copies"
        if fault == "repository full":
            stack.enter_context(small_disk(copies, 2**20))
        else:
            copies.mkdir()

        def peers(open_in: contextlib.ExitStack) -> tuple[SourceSpec, Location]:
            source = open_in.enter_context(sftp_host(files)) if fault == "source killed" else local_folder(files)
            remote = fault == "repository killed"
            return source, open_in.enter_context(webdav(copies)) if remote else of_directory(copies)

        with contextlib.ExitStack() as first:
            source, location = peers(first)
            assert back_up(source, location).verdict is Verdict.SUCCEEDED
            before = tree(files)
            write_files(files, note="x" * (3_000_000 if "full" in fault else 600_000), zz="last" * 50_000, new="new")
            (files / "gone").unlink()
            result = back_up(source, location, on_progress, options={} if "full" in fault else SLOW)
            assert result.verdict is verdict, result
            assert text in result.error
        source, location = peers(stack)
        assert restored(location, "20261121T065755Z", tmp_path) == before
        if "full" in fault:
            write_files(files, note="small again")
        result = back_up(source, location)
        assert result.verdict is Verdict.SUCCEEDED, result
        assert restored(location, result.snapshot, tmp_path) == tree(files)
        shutil.rmtree(tmp_path / "restored-20261121T065755Z")
        assert restored(location, "20261121T065755Z", tmp_path) == before
        assert not [path for path in copies.rglob("*") if "partial" in path.name or "unfinished" in path.name]


def test_a_remote_without_times_gets_what_changed_without_another_size(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", note="one", same="same")
    (tmp_path / "copies").mkdir()
    with webdav(tmp_path / "copies") as location:
        timeless = {**location.environment, "RCLONE_CONFIG_BASE_VENDOR": "other"}
        location = replace(location, environment=timeless)
        assert back_up(local_folder(files), location).verdict is Verdict.SUCCEEDED
        before = tree(files)
        write_files(files, note="two")
        result = back_up(local_folder(files), location)
        assert (result.verdict, result.changed, result.unchanged, result.read) == (Verdict.SUCCEEDED, 1, 1, 3), result
        assert restored(location, result.snapshot, tmp_path) == tree(files)
        assert restored(location, "20261121T065755Z", tmp_path) == before


def test_what_changes_between_its_listing_and_its_copy_is_not_called_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path / "files", note="one", same="same", **{"swap/inner": "one"})
    (tmp_path / "copies").mkdir()
    with webdav(tmp_path / "copies") as location:
        assert back_up(local_folder(files), location).verdict is Verdict.SUCCEEDED
        before, transfer, done = tree(files), RcloneRun.transfer, list[str]()
        write_files(files, note="first")

        def changing(*given: Any, **how: Any) -> Judgement:
            if not done:
                done.append(write_files(files, note="later, and longer").name)
                (files / "same").unlink()
                write_files(files, **{"same/inner": "a folder now"})
            return transfer(*given, **how)

        write_files(files, same="SAME, and new")
        monkeypatch.setattr(RcloneRun, "transfer", changing)
        result = back_up(local_folder(files), location)
        assert result.verdict is Verdict.WARNINGS, result
        held = restored(location, result.snapshot, tmp_path)
        assert (held["note"], held["same"]) in (("later, and longer", "same"), ("one", "same")), held
        result = back_up(local_folder(files), location)
        assert result.verdict is Verdict.SUCCEEDED, result
        assert restored(location, result.snapshot, tmp_path) == tree(files)
        assert restored(location, "20261121T065755Z", tmp_path) == before


NOBODY = 65_534


def as_pictured(location: Location, point: str, target: Path) -> dict[str, tuple[object, ...]]:
    report = into_folder.restore(Wish(FOLDER, point, target), Store(location, Event()), target.parent / "cache")
    assert report.failed == []
    return picture(target)


def test_a_point_in_an_sftp_repository_comes_back(tmp_path: Path) -> None:
    source = write_files(tmp_path / "source", **{"a/b": "first", "c": "", "line\nbreak": "x"})
    (source / "link").symlink_to("a/b")
    with serving("sftp", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        pictures = {}
        for text in ("first", "second"):
            (source / "a/b").write_text(text)
            result = back_up(local_folder(source), location)
            assert result.verdict is Verdict.SUCCEEDED, result
            pictures[result.snapshot] = picture(source)
        for point, expected in pictures.items():
            assert as_pictured(location, point, tmp_path / point) == expected


def test_a_removal_whose_server_is_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    source, pictures = write_files(tmp_path / "source", kept="k"), {}
    with contextlib.ExitStack() as served:
        settings, secrets, path = served.enter_context(serving("webdav", tmp_path / "served"))
        location = remotes.location_of(path, settings, secrets, None)
        for text in ("1", "22", "333"):
            write_files(source, a=text, **{text: text})
            pictures[back_up(local_folder(source), location).snapshot] = picture(source)
        first, gone, last = pictures
        with pytest.raises(StorageFailed):
            removal.remove(Store(location, Event()), FOLDER, [gone], on_progress=lambda files, freed: served.close())
    with serving("webdav", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        assert removal.remove(Store(location, Event()), FOLDER, [gone]).present == (first, last)
        for point in (first, last):
            assert as_pictured(location, point, tmp_path / point) == pictures[point]


def test_a_drill_in_an_encrypted_repository_proves_and_on_a_full_disk_says_so(tmp_path: Path) -> None:
    source = write_files(tmp_path / "source", large="x" * 600_000, small="s")
    (tmp_path / "repository").mkdir()
    location = remotes.location_of(str(tmp_path / "repository"), {}, {}, KEY)
    point = back_up(local_folder(source), location).snapshot
    store = Store(location, Event())
    done = drilling.drill(store, FOLDER, Scratch(str(tmp_path / "scratch"), 0.0))
    assert (done.point, done.files, done.error) == (point, 2, "")
    with small_disk(tmp_path / "full", 2**19) as disk:
        (disk / "fills").write_bytes(b"x" * 2**18)
        found = drilling.drill(store, FOLDER, Scratch(str(disk / "scratch"), 0.0))
        assert (found.files, found.of_files, found.error) == (1, 2, ""), "what there is room for"
        (disk / "rest").write_bytes(b"x" * (2**18 - 2**15))
        with pytest.raises(StorageFailed, match="a drill needs room for 600,001 bytes"):
            drilling.drill(store, FOLDER, Scratch(str(disk / "scratch"), 50.0))
