"""A file that changes at the same size while it is copied is named, and comes again, where rclone notices nothing."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import EngineResult, Verdict
from engines.rclone import bringing
from engines.rclone.point import CHANGED
from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points.store import Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.faulty_webdav import faulty_share
from tests.engines.peers import PASSWORD, STARTED_AT, USER, local_folder, run, task_for, write_files
from tests.storage.repositories import encrypted

MORE_THAN_BUFFERS = 48 * 2**20
"""Bytes: rclone and sockets hold half of them at the most, so the end is read after the beginning has come."""
FOLDER = "nas-7/nightly"


def backed_up(source: Path, location: Location, day: int) -> EngineResult:
    started = STARTED_AT + timedelta(days=day)
    return run(task_for(local_folder(source), source, location=location, folder=FOLDER, started_at=started))


def come_back(location: Location, result: EngineResult, into: Path) -> dict[str, str]:
    restore(Wish(FOLDER, result.snapshot, into), Store(location, Event()), into.with_suffix(".cache"))
    return {each.name: each.read_text() for each in into.iterdir()}


@pytest.mark.slow
def test_a_file_that_changes_while_a_server_takes_it_is_named_and_comes_again(tmp_path: Path) -> None:
    source, asked = write_files(tmp_path / "source", busy="", quiet="quiet"), list[str]()
    (tmp_path / "share").mkdir()
    with (source / "busy").open("r+b") as busy:
        busy.truncate(MORE_THAN_BUFFERS)
        os.utime(source / "busy", (1, 1))

        def change(method: str, path: str) -> None:
            if method == "PUT" and path.endswith("/busy") and not asked:
                asked.append(path)
                for at in (0, MORE_THAN_BUFFERS - 3):
                    os.pwrite(busy.fileno(), b"new", at)

        with faulty_share(tmp_path / "share", change) as share:
            settings = {"type": "webdav", "url": share.address, "user": USER, "vendor": "other"}
            location = remotes.location_of("vault", settings, {"pass": PASSWORD}, None)
            results = [backed_up(source, location, day) for day in range(3)]
    content = (tmp_path / "share" / asked[0].partition("/vault/")[2].join(["vault/", ""])).read_bytes()
    assert (content[:3], content[-3:], len(content)) == (b"\0\0\0", b"new", MORE_THAN_BUFFERS), "it was not changed"
    assert [each.warnings for each in results] == [(f"{CHANGED}: busy",), (), ()]
    assert [(each.new, each.changed, each.unchanged) for each in results] == [(2, 0, 0), (0, 1, 1), (0, 0, 2)]


@pytest.mark.parametrize(("when", "is_named"), [("before", False), ("after", True)])
def test_a_file_that_changed_before_it_was_opened_is_not_named(
    when: str, *, is_named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_files(tmp_path / "source", busy="old", quiet="quiet")
    location = encrypted(of_directory(tmp_path / "vault"))
    (tmp_path / "vault").mkdir()
    os.utime(source / "busy", (1, 1))
    kept: Callable[..., Any] = bringing.bring

    def bring(*given: Any) -> Any:
        (source / "busy").write_text("new" if when == "before" else "old")
        done = kept(*given)
        if when == "after":
            (source / "busy").write_text("new")
        return done

    with monkeypatch.context() as patched:
        patched.setattr(bringing, "bring", bring)
        first = backed_up(source, location, 0)
    later = backed_up(source, location, 1)
    assert (first.verdict, first.warnings) == (
        (Verdict.WARNINGS, (f"{CHANGED}: busy",)) if is_named else (Verdict.SUCCEEDED, ())
    ), first
    assert (later.warnings, come_back(location, later, tmp_path / "later")) == ((), {"busy": "new", "quiet": "quiet"})
    assert come_back(location, first, tmp_path / "first")["busy"] == ("old" if is_named else "new")
