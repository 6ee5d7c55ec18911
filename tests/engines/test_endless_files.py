"""Files of which far more comes than was listed: they are exceptions, and everything else is copied."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from engines.base import BackupTask, EngineProgress, EngineResult, Verdict
from engines.rclone import log, options
from engines.rclone import run as rclone_run
from storage.places.location import of_directory
from storage.points import manifests
from storage.points.manifests import Entry
from storage.points.store import Store
from tests.engines.peers import STARTED_AT, held, local_folder, point, run, task_for, write_files
from tests.engines.sftp_hosts import sftp_with_limits
from tests.engines.webdav_shares import Share
from tests.storage.repositories import encrypted

ROOM = 2**16
TOO_MUCH = 2**28
"""Bytes after which a run is stopped that should have ended by itself; at RATE that takes half a minute."""
RATE = {"bwlimit": "8M"}
LATER = {"started_at": STARTED_AT + timedelta(days=1)}


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SLACK", ROOM)


class Endless(bytes):
    """Listed with its length, and read without an end."""

    def __getitem__(self, at: slice) -> bytes:  # type: ignore[override]
        return b"x" * (at.stop - at.start)


def bounded(task: BackupTask, grow: Path | None = None) -> EngineResult:
    """A run that is stopped once it has brought TOO_MUCH. `grow`: a file that becomes very large as soon as some of it
    was read."""
    stop = Event()

    def look(progress: EngineProgress) -> None:
        if grow and progress.bytes_done:
            os.truncate(grow, 2**40)
        if progress.bytes_done > TOO_MUCH:
            stop.set()

    return run(task, look, stop)


@pytest.mark.slow
def test_a_file_that_grows_faster_than_it_is_encrypted_is_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = (*options.common_arguments(task_for(local_folder(tmp_path), tmp_path)), "--stats=50ms")
    monkeypatch.setattr(rclone_run, "common_arguments", lambda task: often)
    monkeypatch.setattr(log, "at_most", lambda size: size + ROOM)
    files = write_files(tmp_path / "files", growing="old", a="first", **{f"b{number}": "b" for number in range(9)})
    folder = tmp_path / "repository"
    folder.mkdir()
    location = encrypted(of_directory(folder))
    task = task_for(local_folder(files), tmp_path, location=location, folder="copy")
    first = run(task)
    assert first.verdict is Verdict.SUCCEEDED, first
    write_files(files, growing="x" * 12 * 2**20, a="second", z="new")
    task = replace(task, options={"bwlimit": "1M"}, started_at=LATER["started_at"])
    result = bounded(task, files / "growing")
    assert result.verdict is Verdict.WARNINGS, result
    assert result.warnings[:1] == ("1 file was not copied",)
    assert result.warnings[1].startswith("growing: 12,582,912 bytes of it were listed, and ")
    assert (result.new, result.changed) == (1, 1)
    entries = entries_of(Store(location, Event()), result.snapshot, tmp_path / "manifest")
    assert (entries["growing"].as_of, entries["growing"].size) == (first.snapshot, 3)


def entries_of(store: Store, name: str, file: Path) -> dict[str, Entry]:
    assert store.manifest("copy", name, file)
    return {each.path: each for each in manifests.read(file)}


@pytest.mark.parametrize("kind", ["webdav", pytest.param("sftp", marks=pytest.mark.slow)])
def test_a_server_that_sends_a_file_without_an_end_does_not_fill_the_repository(kind: str, tmp_path: Path) -> None:
    share = Share(a=b"first", endless=b"old", **{f"b{number}": b"%d" % number for number in range(9)})
    files = share.files
    with sftp_with_limits(files) if kind == "sftp" else share.served() as source:
        first = run(task_for(source, tmp_path / "copy"))
        assert first.verdict is Verdict.SUCCEEDED, first
        files |= {"a": b"second", "endless": Endless(b"x" * 100_000), "z": b"new"}
        share.endless = {"endless"}
        result = bounded(task_for(source, tmp_path / "copy", options=RATE, **LATER))
        share.endless = set()
    assert result.verdict is Verdict.WARNINGS, result
    assert result.warnings[1].startswith("endless: 100,000 bytes of it were listed, and ")
    entries = point(tmp_path / "copy", result.snapshot)
    assert entries["endless"].as_of == first.snapshot
    came = held(tmp_path / "copy")
    assert (came["a"], came["endless"], came["z"], len(came)) == ("second", "old", "new", 12)


@pytest.mark.slow
def test_a_server_whose_files_all_have_no_end_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rclone_run, "MOST_CUTS", 2)
    share = Share(**{f"b{number:02}": b"x" * 1000 for number in range(20)})
    share.endless = set(share.files)
    with share.served() as source:
        task = task_for(source, tmp_path / "copy", options={"transfers": 1, **RATE})
        result = bounded(task)
    assert result.verdict is Verdict.SOURCE_FAILED, result
    assert "more than 2 files had far more bytes than their source had listed, such as b0" in result.error
    assert not list((tmp_path / "copy/manifests").glob("*.gz"))
