"""Contents are compared by digests where a policy wants it (`checksum: true`); and a file that changes at the same size
while it is copied is named, and comes again, where rclone notices nothing."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import EngineResult, SourceSpec, Verdict
from engines.rclone import bringing, transfer
from engines.rclone.point import CHANGED
from engines.rclone.run import RcloneRun
from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points import manifests, runs
from storage.points.store import StorageFailed, Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.faulty_webdav import faulty_share
from tests.engines.locations import location_of
from tests.engines.peers import (
    PASSWORD,
    STARTED_AT,
    USER,
    back_up,
    held,
    local_folder,
    run,
    s3_bucket,
    sftp_host,
    task_for,
    webdav_share,
    write_files,
)
from tests.storage.repositories import encrypted

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""Than what these tests write, so that no file is in doubt."""


def lying(file: Path, text: str, time: int = 1_700_000_000) -> None:
    """Write another content of the same size and time."""
    file.write_text(text)
    os.utime(file, (time, time))


@contextlib.contextmanager
def a_bucket(served: Path) -> Iterator[SourceSpec]:
    with s3_bucket(served.parent) as source:
        yield replace(source, path=served.name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [local_folder, sftp_host, a_bucket, webdav_share])
def test_contents_are_compared_where_sizes_and_times_lie(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", same="same", other="other")
    for each in ("same", "other"):
        lying(files / each, each)
    wanted = {"checksum": True, "ignore_ctime": True}
    opened = kind(files)
    with contextlib.nullcontext(opened) if isinstance(opened, SourceSpec) else opened as source:
        for day, options, text, read in (
            (0, {}, "other", 9), (1, {"ignore_ctime": True}, "first", 0), (2, wanted, "first", 5),
            (3, wanted, "first", 0),
            (4, wanted, "third", 5), (5, wanted, "third", 0),
        ):  # fmt: skip
            lying(files / "other", text)
            started_at = LATER + timedelta(days=day)
            result = back_up(source, tmp_path / "copy", options=options, started_at=started_at)
            assert result.verdict is Verdict.SUCCEEDED, result
            if day != 2 or kind is local_folder:  # else the first run with digests brings all
                assert result.read == read, (day, result)
            assert held(tmp_path / "copy")["other"] == ("other" if day < 2 else text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sftp_host, webdav_share])
@pytest.mark.parametrize(("seconds", "read"), [(0, 5), (-1, 5), (60, 5), (-60, 0)])
def test_a_file_that_changes_once_more_in_the_second_in_which_it_was_copied_is_fetched_again(
    kind: Callable[[Path], Any], seconds: int, read: int, tmp_path: Path
) -> None:
    """`seconds`: from the begin of the run to the time of the file, which its source rounds. What is older counts as
    unchanged."""
    files, time = write_files(tmp_path / "files", same="same"), int(STARTED_AT.timestamp()) + seconds
    lying(files / "same", "same")
    lying(files / "note", "first", time)
    with kind(files) as source:
        assert back_up(source, tmp_path / "copy").verdict is Verdict.SUCCEEDED
        lying(files / "note", "third", time)
        results = [back_up(source, tmp_path / "copy", started_at=LATER + timedelta(days=day)) for day in range(2)]
    assert [each.read for each in results] == [read, 0], results
    assert held(tmp_path / "copy") == {"note": "third" if read else "first", "same": "same"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "kind"),
    [(sftp_host, "plain"), (a_bucket, "encrypted"), (a_bucket, "s3")],
)
def test_what_was_another_content_only_while_it_was_copied_is_brought_again(
    source: Callable[[Path], Any], kind: str, tmp_path: Path
) -> None:
    """It was A as it was listed, B as it was copied, and is A, of the same size and time, ever after."""
    files = write_files(tmp_path / "files", same="same")
    lying(files / "note", "first")
    with location_of(kind, tmp_path / "repository") as location, source(files) as opened:

        def backed_up(day: int, **changes: bool) -> EngineResult:
            at = LATER + timedelta(days=day)
            return run(task_for(opened, tmp_path, location=location, folder="nas", started_at=at, options=changes))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RcloneRun, "transfer", changing(files / "note", RcloneRun.transfer))
            first = backed_up(0, checksum=True)
        again = backed_up(1, checksum=True)
        assert (first.verdict, again.verdict) == (Verdict.WARNINGS, Verdict.SUCCEEDED), (first, again)
        assert 5 <= again.read < 60, "one of both"
        assert first.warnings == ("note: not as its source listed it; the next run brings it again",)
        assert backed_up(2, checksum=True).read == 0


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "has_failed"), [("plain", False), ("encrypted", False), ("plain", True)])
def test_a_time_that_was_another_one_while_a_file_was_copied_is_seen_in_the_copy(
    kind: str, has_failed: bool, tmp_path: Path
) -> None:
    """`has_failed`: the run makes no point, and the next one takes over what it has brought of the rest."""
    files = write_files(tmp_path / "files", same="same")
    for each in ("note", "dot."):
        lying(files / each, "first")
    with location_of(kind, tmp_path / "repository") as location, sftp_host(files) as opened:

        def backed_up(day: int) -> EngineResult:
            at = LATER + timedelta(days=day)
            return run(task_for(opened, tmp_path, location=location, folder="nas", started_at=at))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bringing, "bring", changing(files / "note", bringing.bring, 1_600_000_000))
            patch.setattr(transfer, "bring_renamed", changing(files / "dot.", transfer.bring_renamed, 1_600_000_000))
            if has_failed:
                patch.setattr(runs, "check_base", failing)
            assert backed_up(0).snapshot == "" or not has_failed
        point = backed_up(1).snapshot
        assert Store(location, Event()).manifest("nas", point, tmp_path / "manifest")
        brought = {each.path for each in manifests.read(tmp_path / "manifest") if each.folder.startswith(point)}
        assert (brought, backed_up(2).read) == ({"note", "dot."}, 0)


def failing(*given: Any, **how: bool) -> None:
    raise StorageFailed("its server is away")


def changing(file: Path, bring: Callable[..., Any], time: int = 1_700_000_000) -> Callable[..., Any]:
    """Have another content there while files are brought, of the same size."""

    def brought(*given: Any, **named: Any) -> Any:
        text = file.read_text()
        lying(file, text[::-1], time)
        try:
            return bring(*given, **named)
        finally:
            lying(file, text)

    return brought


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "encrypted"])
def test_times_that_sftp_cannot_say_are_no_change_each_night(kind: str, tmp_path: Path) -> None:
    """It has 32 bits for seconds since 1970: until 2106."""
    files = write_files(tmp_path / "files", same="same")
    for name, time in (("1969", -31_536_000), ("2109", 4_400_000_000), ("1970", 0)):
        lying(files / name, name, time)
    with location_of(kind, tmp_path / "repository") as location, sftp_host(files) as opened:
        results = []
        for day in range(4):
            at = datetime(2026, 11, 21, tzinfo=UTC) + timedelta(days=day)
            results.append(run(task_for(opened, tmp_path, location=location, folder="nas", started_at=at)))
    assert [(each.verdict, each.files) for each in results] == [(Verdict.SUCCEEDED, 4)] * 4
    assert [each.read for each in results[2:]] == [0, 0], [each.read for each in results]


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
