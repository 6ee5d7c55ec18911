"""Files that are damaged, gone or in the way while a point is restored are named, and the rest comes back."""

import gzip
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from storage import layout
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.store import StorageFailed, Store
from storage.points.trees import opened, versions_of
from storage.restoring import into_folder
from storage.restoring.base import Wish
from tests.processes import below
from tests.storage import restored_points
from tests.storage.building import ASSIGNMENT, Built, picture
from tests.storage.restored_points import restore
from tests.waiting import PATIENCE, eventually

built = restored_points.built


def test_a_copy_whose_rclone_is_killed_is_begun_again(built: Built, tmp_path: Path) -> None:
    built.write("large", "x" * 30_000_000)
    point, killed = built.back_up(), list[int]()

    class Killing(Store):
        def copy_out(self, *arguments: Any, **more: Any) -> None:
            if killed:
                super().copy_out(*arguments, **more)
                return
            (thread := threading.Thread(target=self._kill)).start()
            try:  # so slowly that it is still at work when it is killed
                super().copy_out(*arguments, "--bwlimit=1M", **more)
            finally:
                thread.join(PATIENCE)

        def _kill(self) -> None:
            for each in eventually(lambda: below("copy", part="rclone")):
                killed.append(each.pid)
                each.kill()

    killing = Killing(built.location, threading.Event())
    report = into_folder.restore(Wish(ASSIGNMENT, point, tmp_path / "to"), killing, built.folder / "cache")

    assert (len(killed), report.failed) == (1, [])
    assert picture(tmp_path / "to") == picture(built.source)


def test_a_point_that_is_removed_in_mid_restore_is_no_other_content(built: Built, tmp_path: Path) -> None:
    """Retention takes the manifest first, then what only that point needed."""
    built.digests = False
    built.write("a", "before")
    point = built.back_up()
    stored = built.stored("a")
    built.write("a", "behind")
    built.back_up()
    assignment = built.folder / "repository" / ASSIGNMENT

    class Removing(Store):
        def copy_out(self, path: str, *arguments: Any, **more: Any) -> None:
            (assignment / f"manifests/{point}.jsonl.gz").unlink(missing_ok=True)
            stored.unlink(missing_ok=True)
            super().copy_out(path, *arguments, **more)

    removing = Removing(built.location, threading.Event())
    with pytest.raises(StorageFailed, match="was removed by retention while it was restored"):
        into_folder.restore(Wish(ASSIGNMENT, point, tmp_path / "to"), removing, built.folder / "cache")
    assert not (tmp_path / "to/a").exists()


def test_a_flipped_bit_is_named_and_the_file_left_out(built: Built, tmp_path: Path) -> None:
    built.write("good", "good")
    built.write("bad", "bad")
    point = built.back_up()
    damaged = built.stored("bad")
    facts = damaged.stat()
    damaged.write_text("bat")
    os.utime(damaged, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    report = restore(built, point, tmp_path / "to")

    assert report.failed == ["bad: the repository has no file that matches the manifest of this point"]
    assert (tmp_path / "to/good").exists()
    assert not (tmp_path / "to/bad").exists()


def test_a_repository_without_times_and_digests_is_believed_by_size(built: Built, tmp_path: Path) -> None:
    built.digests = False
    built.write("a", "content")
    point = built.back_up()
    os.utime(built.stored("a"), (0, 0))

    restore(built, point, tmp_path / "to")

    assert picture(tmp_path / "to") == picture(built.source)


def test_a_truncated_manifest_is_a_sentence(built: Built, tmp_path: Path) -> None:
    built.write("a", "content")
    point = built.back_up()
    file = built.folder / "repository" / layout.manifest_path(ASSIGNMENT, point)
    file.write_bytes(gzip.compress(b"\n".join(gzip.decompress(file.read_bytes()).splitlines()[:-1])))

    with pytest.raises(ManifestDamaged, match="ends too early"):
        restore(built, point, tmp_path / "to")


def test_what_is_as_of_an_earlier_point_or_missing_is_said_and_no_failure(built: Built, tmp_path: Path) -> None:
    for path in ("docs/a", "docs/b", "locked/c", "top"):
        built.write(path, path)
    first = built.back_up()
    old = [built.last[path]._replace(why="permission denied", as_of=first) for path in ("docs/a", "docs/b")]
    for path in ("docs/a", "docs/b"):
        (built.source / path).unlink()
    (built.source / "gone").mkdir()
    lacking = [Entry("locked", "folder", why="stale file handle"), Entry("new", size=7, why="input/output error")]
    point = built.back_up(excepted=[*old, *lacking])

    report = restore(built, point, tmp_path / "to")

    assert (report.files, report.failed, report.old_files, report.missing_files) == (4, [], 2, 2)
    assert report.old == [
        "2 files as of 2026-11-20 06:00 UTC, since they could not be read or copied later: docs/a, docs/b"
    ]
    assert report.missing == ["locked/: it could not be listed: stale file handle", "new: input/output error"]
    assert (tmp_path / "to/docs/a").read_text() == "docs/a"
    assert not (tmp_path / "to/new").exists()
    some = restore(built, point, tmp_path / "some", "docs/a", "top", dry_run=True)
    assert (some.files, some.old_files, some.missing) == (2, 1, [])
    with opened(built.store, ASSIGNMENT, point, built.folder / "cache") as tree:
        rows = {each.name: (each.entry.why, each.files) for each in tree.folder()}
        assert tree.total() == (4, 8 + 6 + 6 + 3 - 2 + 2)
    assert rows == {
        "docs": ("", 2), "gone": ("", 0), "locked": ("stale file handle", 1), "new": ("input/output error", 1),
        "top": ("", 1),
    }  # fmt: skip
    (built.folder / "repository" / layout.manifest_path(ASSIGNMENT, point)).unlink()  # it is in the cache
    versions = versions_of(built.store, ASSIGNMENT, [point, first], "docs/a", built.folder / "cache")
    assert [each["points"] for each in versions] == [[point, first]]
    assert versions_of(built.store, ASSIGNMENT, [point, first], "new", built.folder / "cache") == []
