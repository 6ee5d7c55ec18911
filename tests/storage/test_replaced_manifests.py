"""A manifest that a check writes again on a WebDAV share is the old one or the new one, whatever fails."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from storage import layout
from storage.places import remotes
from storage.points import checking, manifests, removal, runs
from storage.points.manifests import Entry, Header
from storage.points.store import StorageFailed, Store
from tests.engines.faulty_webdav import NOT_ANSWERED, faulty_share
from tests.engines.peers import PASSWORD, USER

POINT, LATER = "20261120T060000Z", "20261121T060000Z"
FAULTS = [("PUT", 507), ("MOVE", 423), ("MOVE", NOT_ANSWERED), ("", None)]


@pytest.mark.slow
def test_a_manifest_that_is_written_again_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    fault: tuple[str, str | int | None] = ("", None)
    header = Header("nas", "sftp", "nightly", "rclone", "1", "2026-11-20T06:00:00Z", "2026-11-20T06:00:00Z")
    (tmp_path / "share").mkdir()
    (tmp_path / "a").write_text("a")
    with faulty_share(tmp_path / "share", lambda method, path: fault[1] if method == fault[0] else None) as source:
        settings = {"type": "webdav", "url": source.address, "user": USER, "vendor": "other"}
        store = Store(remotes.location_of("vault", settings, {"pass": PASSWORD}, "5f" * 32), Event())
        entry = Entry("a", size=1, modified="2026-11-20T06:00:00Z", folder=POINT)
        runs.write_point(store, "nas-7", POINT, header, [entry])
        failed = 0
        for number, fault in enumerate(FAULTS):
            again, file = entry._replace(digest=f"{number}" * 64), tmp_path / f"{number}"
            try:
                runs.write_point(store, "nas-7", POINT, header, [again], again=True)
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
        runs.write_point(store, "nas-7", POINT, header, [entry._replace(digest=None)], again=True)
        fault = ("MOVE", 403)
        whole: dict[str, Any] = {"part": "", "after": "", "total": 0, "share": 1.0}
        done = checking.check(store, "nas-7", **whole)
        assert (done.files, done.filled, done.damaged) == (1, 0, [])
        assert done.not_filled == f"{POINT}: the server answered 403 Forbidden"
        runs.write_point(store, "nas-7", LATER, header, [])
        assert removal.remove(store, "nas-7", [POINT]).points == (POINT,)
        assert store.names(f"nas-7/{layout.MANIFESTS}") == [f"{LATER}{layout.MANIFEST_ENDING}"]
