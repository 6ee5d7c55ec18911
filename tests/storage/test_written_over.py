"""A file of a repository that is written again on a WebDAV share is the old one or the new one, whatever fails."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import SourceSpec
from storage import layout
from storage.places import identity, remotes
from storage.places.identity import Identity
from storage.places.location import Location, of_directory
from storage.points import checking, copying, manifests, removal, runs
from storage.points.manifests import Entry, Header
from storage.points.store import StorageFailed, Store
from storage.recover import instructions
from tests.engines.faulty_webdav import HALF, NOT_ANSWERED, faulty_share
from tests.engines.peers import PASSWORD, USER
from tests.storage.played_runs import ASSIGNMENT
from tests.storage.with_digests import WithDigests

POINT, LATER = "20261120T060000Z", "20261121T060000Z"
FAULTS = [("PUT", 507), ("MOVE", 423), ("MOVE", NOT_ANSWERED), ("", None)]
KEY = "5f" * 32
HEADER = Header("nas", "sftp", "nightly", "rclone", "1", "2026-11-20T06:00:00Z", "2026-11-20T06:00:00Z")


def vault(source: SourceSpec, key: str | None = KEY) -> Location:
    settings = {"type": "webdav", "url": source.address, "user": USER, "vendor": "other"}
    return remotes.location_of("vault", settings, {"pass": PASSWORD}, key)


@pytest.mark.slow
def test_a_manifest_that_is_written_again_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    fault: tuple[str, str | int | None] = ("", None)
    (tmp_path / "share").mkdir()
    (tmp_path / "a").write_text("a")
    with faulty_share(tmp_path / "share", lambda method, path: fault[1] if method == fault[0] else None) as source:
        store = Store(vault(source), Event())
        entry = Entry("a", size=1, modified="2026-11-20T06:00:00Z", folder=POINT)
        runs.write_point(store, "nas-7", POINT, HEADER, [entry])
        failed = 0
        for number, fault in enumerate(FAULTS):
            again, file = entry._replace(digest=f"{number}" * 64), tmp_path / f"{number}"
            try:
                runs.write_point(store, "nas-7", POINT, HEADER, [again], again=True)
            except StorageFailed:
                failed += 1
            fault = ("", None)
            assert store.manifest("nas-7", POINT, file), FAULTS[number]
            [there] = manifests.read(file)
            assert there in (entry, again)
            entry = there
        assert (failed, entry.digest) == (3, "3" * 64)
        assert store.names(f"nas-7/{layout.MANIFESTS}") == [f"{POINT}{layout.MANIFEST_ENDING}"]
        # a share that refuses to move files keeps the new one, until its point is removed
        store.put(tmp_path / "a", f"{layout.files_path('nas-7')}/{entry.place}")
        runs.write_point(store, "nas-7", POINT, HEADER, [entry._replace(digest=None)], again=True)
        fault = ("MOVE", 403)
        whole: dict[str, Any] = {"part": "", "after": "", "total": 0, "share": 1.0}
        done = checking.check(store, "nas-7", **whole)
        assert (done.files, done.filled, done.damaged) == (1, 0, [])
        assert done.not_filled == f"{POINT}: the server answered 403 Forbidden"
        runs.write_point(store, "nas-7", LATER, replace(HEADER, started_at="2026-11-21T06:00:00Z"), [])
        assert removal.remove(store, "nas-7", [POINT]).points == (POINT,)
        assert store.names(f"nas-7/{layout.MANIFESTS}") == [f"{LATER}{layout.MANIFEST_ENDING}"]


@pytest.mark.slow
def test_what_is_at_the_top_of_a_repository_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    fault: tuple[str, str | int | None] = ("", None)
    ours = Identity("1", "vault", True, identity.digest_of(KEY))
    (top := tmp_path / "share/vault").mkdir(parents=True)
    with faulty_share(top.parent, lambda method, path: fault[1] if method == fault[0] else None) as source:
        store = Store(vault(source), Event())
        instructions.keep_current(store, ours)
        new = {name: (top / name).read_text() for name in (layout.RECOVER, layout.REPOSITORY)}
        for fault in [("PUT", HALF), *FAULTS]:
            for name in new:
                (top / name).write_text("old")
            with suppress(StorageFailed):
                identity.write(Store(store.location.bare, Event()), ours)
            is_moved = fault[0] != "PUT" and fault[1] != 423
            assert (top / layout.REPOSITORY).read_text() == (new[layout.REPOSITORY] if is_moved else "old"), fault
            (top / layout.REPOSITORY).write_text(new[layout.REPOSITORY])
            instructions.keep_current(store, ours)
            assert (top / layout.RECOVER).read_text() == (new[layout.RECOVER] if is_moved else "old"), fault
    assert {each.name for each in top.iterdir()} == {*new}


@pytest.mark.slow
def test_a_file_of_a_copy_that_is_taken_for_damaged_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    fault: tuple[str, str | int | None] = ("", None)
    first, share = WithDigests(tmp_path / "first"), tmp_path / "share"
    share.mkdir()
    point = first.back_up({"a": "one", "b/c": "two"})
    with faulty_share(share, lambda method, path: fault[1] if method == fault[0] else None) as served:
        there = remotes.beside(vault(served, None))
        source, target = Store(of_directory(first.root), Event(), beside=there), Store(there, Event())
        copying.copy(source, target, ASSIGNMENT)
        folder = share / "vault" / ASSIGNMENT
        for fault in [("PUT", HALF), *FAULTS]:
            for name in (files := ("a", "b/c")):
                (folder / layout.FILES / point / name).write_text("old")
            done = copying.copy(source, target, ASSIGNMENT, damaged={point: [f"{point}/{each}" for each in files]})
            is_moved = fault[0] != "PUT" and fault[1] != 423
            held = [(folder / layout.FILES / point / each).read_text() for each in files]
            assert held == (["one", "two"] if is_moved else ["old", "old"]), fault
            assert bool(done.wrong) == bool(fault[0])
        assert {each.name for each in folder.iterdir()} == {layout.FILES, layout.MANIFESTS}
        # a killed copy leaves some, which the next removal there deletes
        (other := share / "vault" / "other" / layout.INCOMING).mkdir(parents=True)
        for left in (folder / layout.INCOMING / point, other):
            left.mkdir(parents=True, exist_ok=True)
            (left / "a").write_text("left")
        later = replace(HEADER, started_at="2099-11-21T06:00:00Z")
        runs.write_point(target, ASSIGNMENT, "20991121T060000Z", later, [])
        assert removal.remove(target, ASSIGNMENT, [point]).points == (point,)
        assert {each.name for each in folder.iterdir()} <= {layout.FILES, layout.MANIFESTS}
        assert (other / "a").read_text() == "left"
