"""Files of which far more comes than was listed: what came of one is never taken for it, and everything else comes."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import BackupTask, EngineResult, SourceSpec, Verdict
from engines.rclone import backup, bringing, log, transfer
from engines.rclone.bringing import ENDLESS
from engines.rclone.engine import RcloneEngine
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import Judgement
from storage import layout
from storage.places import rclone, remotes
from storage.places.location import of_directory
from storage.points import manifests
from storage.points.entries import Entry
from storage.points.store import Store
from tests.append_only import DENIED, append_only
from tests.engines.peers import (
    STARTED_AT,
    back_up,
    held,
    local_folder,
    run,
    serving,
    specification,
    task_for,
    write_files,
)
from tests.engines.webdav_shares import Share
from tests.storage.repositories import encrypted

LATER = STARTED_AT + timedelta(days=1)
LISTED = 100_000
MANY = {f"b{number}": b"%d" % number for number in range(9)}


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rclone, "SLACK", 2**16)


def entries_of(task: BackupTask, result: EngineResult, tmp_path: Path) -> dict[str, Entry]:
    assert Store(task.location, Event()).manifest("copy", result.snapshot, tmp_path / "manifest")
    return {each.path: each for each in manifests.read(tmp_path / "manifest")}


def encrypted_task(source: SourceSpec, tmp_path: Path) -> BackupTask:
    (tmp_path / "repository/copy").mkdir(parents=True)
    location = encrypted(of_directory(tmp_path / "repository"))
    return task_for(source, tmp_path, location=location, folder="copy")


def before_each_copy(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    def after(start: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: (act(), start(*given, **named))[1]

    for name in ("transfer", "serve"):
        monkeypatch.setattr(RcloneRun, name, after(getattr(RcloneRun, name)))


@pytest.mark.parametrize("is_encrypted", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [pytest.param("endless", marks=pytest.mark.slow), "endless."])
def test_a_file_that_a_server_sends_without_an_end_is_an_exception(
    name: str, is_encrypted: bool, tmp_path: Path
) -> None:
    share = Share(a=b"first", **{name: b"old", "odd.": b"odd"}, **MANY)
    with share.served() as source:
        task = encrypted_task(source, tmp_path) if is_encrypted else task_for(source, tmp_path / "copy")
        first = run(task)
        assert first.verdict is Verdict.SUCCEEDED, first
        share.files |= {"a": b"second", name: b"x" * LISTED, "z": b"new", "odder.": b"new"}
        share.endless = {name}
        result = run(replace(task, started_at=LATER))
    assert result.verdict is Verdict.WARNINGS, result
    assert result.warnings == ("1 file was not copied", f"{name}: {ENDLESS}")
    entries = entries_of(task, result, tmp_path)
    assert (entries[name].as_of, entries[name].size) == (first.snapshot, 3)
    assert (result.new, result.changed) == (2, 1)


@pytest.mark.parametrize("may_delete", [True, False])
def test_a_piece_that_a_server_keeps_never_counts(
    may_delete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, files, start = (
        Share(a=b"first", endless=b"y" * LISTED, z=b"z", **MANY),
        tmp_path / "copy/files",
        RcloneRun._run,
    )

    def keeping(self: RcloneRun, arguments: tuple[str, ...], *given: Any, **named: Any) -> Judgement:
        assert not may_delete or not list(files.rglob("endless")), "it goes before the next rclone starts"
        judgement = start(self, arguments, *given, **named)
        for each in judgement.problems if judgement.is_cut else ():
            write_files(Path(arguments[2]), **{each.path: "x" * LISTED})
        return judgement

    monkeypatch.setattr(RcloneRun, "_run", keeping)
    monkeypatch.setattr(bringing, "OF_A_LIST", len(MANY) + 2)
    if not may_delete:
        monkeypatch.setattr(RcloneRun, "delete", lambda self, places, store=None: False)  # append-only
    share.endless = {"endless"}
    with share.served() as source:
        task = task_for(source, tmp_path / "copy")
        result = run(task)
    assert result.verdict is Verdict.WARNINGS, result
    assert may_delete is not bool(list(files.rglob("endless")))
    came = held(tmp_path / "copy")
    assert came == {"a": "first", "z": "z", **{path: content.decode() for path, content in MANY.items()}}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("local", "grown", marks=pytest.mark.slow),
        ("local", "grown."),
        ("webdav", "grown"),
        pytest.param("webdav", "grown.", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_has_grown_since_it_was_listed_comes_in_the_same_run(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, share = write_files(tmp_path / "files", a="a", **{name: ""}), Share(a=b"a", **{name: b""})

    def grow() -> None:
        (files / name).write_text("x" * 2**20)
        share.files[name] = b"x" * 2**20

    before_each_copy(monkeypatch, grow)
    with share.served() as source:
        task = encrypted_task(local_folder(files) if kind == "local" else source, tmp_path)
        result = run(task)
    assert result.snapshot, result
    entries = entries_of(task, result, tmp_path)
    assert {path: each.size for path, each in entries.items()} == {"a": 1, name: 2**20}
    assert entries[name].doubtful


@pytest.mark.slow
def test_files_that_have_all_grown_since_they_were_listed_come_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [f"grown{number:02}" for number in range(40)]
    files = write_files(tmp_path / "files", **dict.fromkeys(paths, ""))
    before_each_copy(monkeypatch, lambda: write_files(files, **dict.fromkeys(paths, "x" * LISTED)))
    task = encrypted_task(local_folder(files), tmp_path)
    result = run(replace(task, options={"transfers": 1}))
    assert result.snapshot, result
    assert {each.size for each in entries_of(task, result, tmp_path).values()} == {LISTED}


@pytest.mark.parametrize("name", ["growing", pytest.param("growing.", marks=pytest.mark.slow)])
def test_a_file_that_grows_faster_than_it_is_copied_is_an_exception(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path / "files", a="a", **{name: "", "odd.": "odd"})
    before_each_copy(monkeypatch, lambda: os.truncate(files / name, 5 * (files / name).stat().st_size + 2**20))
    task = encrypted_task(local_folder(files), tmp_path)
    result = run(task)
    assert result.warnings == ("1 file was not copied", f"{name}: {ENDLESS}")
    entries = entries_of(task, result, tmp_path)
    assert {path for path, each in entries.items() if each.is_kept} == {"a", "odd."}


def test_a_file_without_an_end_that_was_refused_first_keeps_no_other_from_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = {f"z{number}": b"z" for number in range(4)}
    share, first = Share(endless=b"x" * LISTED, **MANY, **later), iter([dict.fromkeys(("endless", *later), 409)])
    share.endless = {"endless"}
    before_each_copy(monkeypatch, lambda: setattr(share, "refused", next(first, {})))
    with share.served() as source:
        result = run(task := task_for(source, tmp_path / "copy"))
    assert result.warnings == ("1 file was not copied", f"endless: {ENDLESS}")
    entries = entries_of(task, result, tmp_path)
    assert {path for path, each in entries.items() if each.is_kept and not each.stored} == {*MANY, *later}


def test_a_source_that_does_not_know_its_sizes_has_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, copies = write_files(tmp_path / "files", **dict.fromkeys("abc", "x" * LISTED)), list[None]()
    before_each_copy(monkeypatch, lambda: copies.append(None))
    with serving("http", files) as (address, port):
        settings = {"type": "http", "url": f"http://{address}:{port}", "no_head": "true"}
        source = specification("rclone", options=settings, secret=None, secrets={}, path="")
        result = run(task_for(source, tmp_path / "copy"))
    assert result.verdict is Verdict.SUCCEEDED, result
    assert (result.new, len(copies)) == (3, 1)


@pytest.mark.slow
def test_a_server_whose_files_all_have_no_end_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MOST_CUTS", 2)
    share = Share(**{f"b{number:02}": b"x" * 1000 for number in range(20)})
    share.endless = set(share.files)
    with share.served() as source:
        result = run(task_for(source, tmp_path / "copy", options={"transfers": 1}))
    assert result.verdict is Verdict.SOURCE_FAILED, result
    assert ENDLESS in result.error


@pytest.mark.parametrize("old", [pytest.param(None, marks=pytest.mark.slow), "old"])
def test_a_mirror_gets_all_other_files_and_keeps_an_earlier_copy(old: str | None, tmp_path: Path) -> None:
    share = Share(**{"a": b"first", "end[less]*": b"x" * LISTED}, **MANY)
    share.endless = {"end[less]*"}
    mirror = write_files(tmp_path / "stage/mirror", gone="gone", **({"end[less]*": old} if old else {}))
    with share.served() as source:
        task = task_for(source, tmp_path / "copy")
        result, folder = RcloneEngine().stage(task, tmp_path / "stage", Event(), lambda progress: None)
    assert folder == mirror
    assert result.warnings == ("1 file not copied", f"end[less]*: {ENDLESS}")
    kept = {"end[less]*": old} if old else {}
    came = {path: content.decode() for path, content in MANY.items()}
    assert {each.name: each.read_text() for each in mirror.iterdir()} == {"a": "first", **kept, **came}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["comes", "comes."])
def test_a_file_that_arrived_with_another_content_comes_to_another_place(name: str, tmp_path: Path) -> None:
    """Its size is right, and its server lets nothing be deleted or replaced."""
    altered = list[Path]()

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or headers.get("Content-Length") != str(len("content")) or altered:
            return None
        altered.append(there := tmp_path / "served" / path.strip("/"))
        write_files(there.parent, **{there.name: "altered"})
        return 200, b""

    with append_only("s3", tmp_path / "served", [], refusal) as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        source = local_folder(write_files(tmp_path / "source", same="same", **{name: "content"}))
        result = back_up(source, tmp_path, location=location, folder="copy", started_at=STARTED_AT)
        assert result.verdict is Verdict.SUCCEEDED, result
        assert Store(location, Event()).manifest("copy", result.snapshot, tmp_path / "manifest")
    [place] = [each.place for each in manifests.read(tmp_path / "manifest") if each.path == name]
    [files] = [each for each in (tmp_path / "served").rglob("files") if each.is_dir()]
    assert (altered[0].read_text(), (files / place).read_text()) == ("altered", "content")


@pytest.mark.slow
def test_no_file_that_arrived_with_another_content_counts_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered, files = set[Path](), {f"f{number}": f"content{number}" for number in range(8)}

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or headers.get("Content-Length") != str(len("content1")) or len(altered) == len(files):
            return None
        altered.add(there := tmp_path / "served" / path.strip("/"))
        write_files(there.parent, **{there.name: "altered!"})
        return 200, b""

    monkeypatch.setattr(log, "MAX_PROBLEMS", 3)
    with append_only("s3", tmp_path / "served", [], refusal) as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        source = local_folder(write_files(tmp_path / "source", same="same", **files))
        result = run(task := task_for(source, tmp_path, location=location, folder="copy"))
        assert result.verdict is Verdict.SUCCEEDED, result
        places = {each: entry.place for each, entry in entries_of(task, result, tmp_path).items()}
    [folder] = [each for each in (tmp_path / "served").rglob("files") if each.is_dir()]
    stored = {each: (folder / place).read_text() for each, place in places.items()}
    assert stored == {"same": "same", **files}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_torn"), [("comes", False), ("comes.", False), ("comes", True)], ids=["plain", "renamed", "a torn note"]
)
def test_a_file_that_arrived_with_another_content_is_not_taken_over_from_a_killed_run(
    name: str, is_torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is right, and its server lets nothing be deleted or replaced."""
    altered, is_killed = list[Path](), True

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or headers.get("Content-Length") != str(len("content")) or altered:
            return DENIED if is_killed and path.endswith(layout.MANIFEST_ENDING) else None
        altered.append(there := tmp_path / "served" / path.strip("/"))
        write_files(there.parent, **{there.name: "altered"})
        return 200, b""

    monkeypatch.setattr(backup._PointAttempt, "_leave", lambda self: None)
    with append_only("s3", tmp_path / "served", [], refusal) as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        source = local_folder(write_files(tmp_path / "source", same="same", **{name: "content"}))
        task = task_for(source, tmp_path, location=location, folder="copy")
        assert not run(task).snapshot
        [note] = (tmp_path / "served").rglob(f"*{layout.AMISS}")
        if is_torn:
            note.write_bytes(b"")
        is_killed = False
        result = run(replace(task, started_at=LATER))
        assert result.verdict is Verdict.SUCCEEDED, result
        places = {path: each.place for path, each in entries_of(task, result, tmp_path).items()}
    [files] = [each for each in (tmp_path / "served").rglob("files") if each.is_dir()]
    assert (altered[0].read_text(), (files / places[name]).read_text()) == ("altered", "content")
    assert places["same"].startswith(result.snapshot) == is_torn, "whole files are taken over"
