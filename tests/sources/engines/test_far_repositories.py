"""Backups into real repositories in which something is amiss, by the engine itself, and restores from them."""

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sources.engines.base import EngineResult, Verdict
from sources.processes.programs import find_rclone
from sources.restores import drilling
from sources.restores.drilling import Scratch
from sources.storage import merging, remotes, restoring
from sources.storage.location import Location
from sources.storage.places import Wish
from sources.storage.store import StorageFailed, Store
from tests.sources.engines import peers
from tests.sources.engines.peers import local_folder, small_disk, write_files
from tests.sources.engines.test_probing import KEY, serving
from tests.sources.storage.building import picture

pytestmark = pytest.mark.slow

FOLDER = "nas-7/nightly"
NOBODY = 65_534


def back_up(source: Path, location: Location) -> EngineResult:
    return peers.back_up(local_folder(source), source, location=location, folder=FOLDER)


def restored(location: Location, point: str, target: Path) -> dict[str, tuple[object, ...]]:
    report = restoring.restore(Wish(FOLDER, point, target), Store(location, threading.Event()), target.parent / "cache")
    assert report.failed == []
    return picture(target)


def test_a_point_in_an_sftp_repository_comes_back(tmp_path: Path) -> None:
    source = write_files(tmp_path / "source", **{"a/b": "first", "c": "", "line\nbreak": "x"})
    (source / "link").symlink_to("a/b")
    with serving("sftp", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None, remotes.obscure)
        pictures = {}
        for text in ("first", "second"):
            (source / "a/b").write_text(text)
            result = back_up(source, location)
            assert result.verdict is Verdict.SUCCEEDED, result
            pictures[result.snapshot] = picture(source)
        for point, expected in pictures.items():
            assert restored(location, point, tmp_path / point) == expected


def test_a_removal_whose_server_is_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    source, pictures = write_files(tmp_path / "source", kept="k"), {}
    with contextlib.ExitStack() as served:
        settings, secrets, path = served.enter_context(serving("webdav", tmp_path / "served"))
        location = remotes.location_of(path, settings, secrets, None, remotes.obscure)
        for text in ("1", "22", "333"):
            write_files(source, a=text, **{text: text})
            pictures[back_up(source, location).snapshot] = picture(source)
        first, gone, last = pictures
        with pytest.raises(StorageFailed):
            merging.remove(
                Store(location, threading.Event()), FOLDER, [gone], on_progress=lambda files, freed: served.close()
            )
    with serving("webdav", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None, remotes.obscure)
        assert merging.remove(Store(location, threading.Event()), FOLDER, [gone]).present == (first, last)
        for point in (first, last):
            assert restored(location, point, tmp_path / point) == pictures[point]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Which any account may pass through."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another account")
def test_a_file_that_may_not_be_read_is_named_and_the_rest_is_kept(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, scripts = open_folder / "rclone-itself", open_folder / "scripts"
    shutil.copy(find_rclone(), program)
    scripts.mkdir()
    wrapper = scripts / "rclone"
    drops = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    # it alone reads the source; lists of paths are for our own account
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = sync ] && exec {drops} {program} "$@"\nexec {program} "$@"\n')
    wrapper.chmod(0o755)
    source = write_files(open_folder / "source", mine="readable", locked="unreadable", **{"closed/within": "x"})
    (source / "locked").chmod(0o600)
    (source / "closed").chmod(0o700)
    repository = open_folder / "repository"
    repository.mkdir()
    os.chown(repository, NOBODY, NOBODY)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(scripts))
    before = os.umask(0)
    try:
        result = back_up(source, remotes.location_of(str(repository), {}, {}, None, remotes.obscure))
    finally:
        os.umask(before)
    assert result.verdict is Verdict.WARNINGS, result
    assert {"locked", "closed"} <= {each.partition(":")[0] for each in result.warnings}
    assert result.files == 1


def test_a_drill_in_an_encrypted_repository_proves_and_on_a_full_disk_says_so(tmp_path: Path) -> None:
    source = write_files(tmp_path / "source", large="x" * 600_000, small="s")
    (tmp_path / "repository").mkdir()
    location = remotes.location_of(str(tmp_path / "repository"), {}, {}, KEY, remotes.obscure)
    point = back_up(source, location).snapshot
    store, cache = Store(location, threading.Event()), tmp_path / "cache"
    done = drilling.drill(store, FOLDER, cache, Scratch(str(tmp_path / "scratch"), 0.0))
    assert (done.point, done.files, done.error) == (point, 2, "")
    with small_disk(tmp_path / "full", 2**19) as disk:
        (disk / "fills").write_bytes(b"x" * 2**18)
        found = drilling.drill(store, FOLDER, cache, Scratch(str(disk / "scratch"), 0.0))
        assert (found.files, found.of_files, found.error) == (1, 2, ""), "what there is room for"
        (disk / "rest").write_bytes(b"x" * (2**18 - 2**15))
        with pytest.raises(StorageFailed, match="a drill needs room for 600,001 bytes"):
            drilling.drill(store, FOLDER, cache, Scratch(str(disk / "scratch"), 50.0))
