"""A copy whose server refuses one file, not the others."""

from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from storage.places import rclone as places_rclone
from storage.places import remote_control, remotes
from storage.places.location import of_directory
from storage.points import copying, removal, runs
from storage.points.moving import TransferProgress
from storage.points.store import StorageFailed, Store
from tests.append_only import DENIED
from tests.engines.peers import back_up, local_folder, tree, write_files
from tests.engines.refused_copies import (
    FOLDER,
    LOCKED,
    LONG,
    LONGEST,
    NEW,
    OLD,
    TOO_LONG,
    Refusal,
    copied_to,
    refusing,
    refusing_long_paths,
)
from tests.engines.served import KEY
from tests.storage.renaming_disk import AS_GIVEN, BAD, renaming_disk

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "refusal", "key"),
    [
        ("webdav-other", refusing(403), None),
        ("webdav-other", refusing(423), KEY),
        ("s3", refusing(*DENIED), None),
        ("s3", refusing(*DENIED), KEY),
    ],
    ids=["denied by a share", "locked, encrypted", "denied by a bucket", "denied by a bucket, encrypted"],
)
def test_a_refused_file_is_an_exception_of_the_copys_point_until_it_is_taken(
    kind: str, refusal: Refusal, key: str | None, tmp_path: Path
) -> None:
    with copied_to(kind, tmp_path, refusal, key) as copied:
        base = copied.back_up(0, same="same", changes=OLD, goes="x")
        assert copied.copy().incomplete == {}
        points = [copied.back_up(1, changes=NEW, comes=LOCKED), copied.back_up(2, later="later")]
        done = copied.copy()
        assert (done.new, done.wrong) == (points, [])
        assert copied.copy(base).incomplete == done.incomplete, "the result may have been lost"
        assert copied.copy(*done.points).incomplete == {}
        for day, point in enumerate(points):
            number, *texts = done.incomplete[point]
            assert number == "2 files were not copied"
            assert [each.partition(": it could not be copied")[0] for each in texts] == ["changes", "comes"]
            report, files = copied.restored(point, day)
            expected = {"same": "same", "changes": OLD, "goes": "x"} | ({"later": "later"} if day else {})
            assert files == expected
            assert (report.complete, report.old_files, report.missing_files) == (False, 1, 1)
            assert report.failed == []
        header = copied.second.header(FOLDER, points[1])
        assert header is not None
        assert not header.complete
        assert copied.damaged() == []
        copied.refusal = None
        last = copied.back_up(3)
        done = copied.copy(base, *points)
        assert (done.new, done.incomplete, done.wrong, done.files) == ([last], {}, [], 2)
        report, files = copied.restored(last, 3)
        assert (report.complete, files) == (True, tree(tmp_path / "source"))
        assert copied.damaged() == []
        if key is None:  # its server lets no one delete
            here = Store(of_directory(next((tmp_path / "served").rglob("backups"))), Event())
            removal.remove(here, FOLDER, [base, points[0]])
            assert copied.restored(points[1], 4)[1] == {"same": "same", "changes": OLD, "goes": "x", "later": "later"}
            removal.remove(here, FOLDER, [points[1]])
            report, files = copied.restored(last, 5)
            assert (report.complete, files) == (True, tree(tmp_path / "source"))
            assert OLD not in tree(tmp_path / "served").values()


@pytest.mark.parametrize(
    ("kind", "refusal", "key"),
    [
        ("webdav-other", refusing_long_paths(414), None),
        ("s3", refusing_long_paths(*TOO_LONG), None),
        ("s3", refusing_long_paths(*TOO_LONG), KEY),
    ],
    ids=["a share", "a bucket", "an encrypted bucket"],
)
def test_a_path_that_is_too_long_for_the_copys_server_gets_another_name_there(
    kind: str, refusal: Refusal, key: str | None, tmp_path: Path
) -> None:
    with copied_to(kind, tmp_path, refusal, key) as copied:
        names = {LONG: "long", LONG + "b": "long too", "short": "short", "other": "other", "more": "more"}
        copied.back_up(0, **names)
        done = copied.copy()
        assert (done.incomplete, done.wrong, done.files) == ({}, [], 5)
        point = copied.back_up(1, new="new", **{LONG: "changed"})
        (tmp_path / "source" / "other").unlink()
        last = copied.back_up(2)
        done = copied.copy()
        assert (done.new, done.incomplete, done.wrong, done.files) == ([point, last], {}, [], 2)
        report, files = copied.restored(last, 2)
        assert (report.complete, report.failed, files) == (True, [], tree(tmp_path / "source"))
        assert copied.damaged() == []


def test_a_file_that_is_there_although_its_upload_failed_is_not_sent_again(tmp_path: Path) -> None:
    """A server that lets nothing be overwritten would refuse it."""
    sent = list[str]()

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or not path.endswith("/comes"):
            return None
        sent.append(path)
        there = tmp_path / "served" / path.strip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(LOCKED)
        return 403, b"no"

    with copied_to("webdav-other", tmp_path, refusal, None) as copied:
        point = copied.back_up(0, same="same", comes=LOCKED)
        done = copied.copy()
        assert (done.new, done.incomplete, done.wrong, len(sent)) == ([point], {}, [], 1)
        assert copied.restored(point, 0)[1] == tree(tmp_path / "source")


@pytest.mark.parametrize(("status", "wanted"), [(403, "/files/"), (507, "changes"), (401, "changes")])
def test_a_copy_fails_where_most_are_refused_or_the_error_concerns_all(
    status: int, wanted: str, tmp_path: Path
) -> None:
    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        return (status, b"no") if command == "PUT" and wanted in path else None

    with copied_to("webdav-other", tmp_path, refusal, None) as copied:
        copied.back_up(0, same="same", changes=OLD, other="other")
        with pytest.raises(StorageFailed, match=r"more than half|Insufficient|Unauthorized"):
            copied.copy()
        assert runs.points(copied.second, FOLDER) == []


def test_the_size_of_what_has_come_under_another_name_is_known_before_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of which no byte is known to have come is ended after a while."""
    seen, take = Event(), TransferProgress.take

    def taking(progress: TransferProgress, line: str) -> bool:
        taken = take(progress, line)
        if progress.size == len(NEW):
            seen.set()
        return taken

    monkeypatch.setattr(TransferProgress, "take", taking)
    monkeypatch.setattr(remote_control, "STATISTICS_EVERY_SECONDS", 0.0)

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        return None if command != "PUT" or seen.wait(30) else (403, b"no")

    with copied_to("webdav-other", tmp_path, refusal, None) as copied:
        write_files(tmp_path / "first", given=NEW)
        there = remotes.beside(copied.second.location)
        copied.there.copy_as("", there.at("files"), {"given": "other"}, problems := dict[str, str]())
        assert not problems


@pytest.mark.parametrize("status", [423, 504])
def test_a_large_file_is_sent_a_few_times_and_once_a_copy_until_it_is_refused(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rclone ends a run of which more comes than expected, refused or not. A server may be silent about one file."""
    monkeypatch.setattr(places_rclone, "SLACK", 1_000)
    sent = list[str]()

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or not path.endswith("/large"):
            return None
        sent.append(path)
        return status, b"no"

    with copied_to("webdav-other", tmp_path, refusal, None) as copied:
        points = [copied.back_up(0, same="same", other="other", large="large" * 100_000), copied.back_up(1)]
        done = copied.copy()
        assert (done.new, [*done.incomplete]) == (points, points)
        assert len(sent) <= 4


def test_a_server_that_wants_fewer_requests_for_a_while_gets_all_files(tmp_path: Path) -> None:
    sent = Counter[str]()

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if command != "PUT" or not path.endswith(("/a", "/b")):
            return None
        sent[path] += 1
        return (429, b"no") if sent[path] <= 6 else None

    with copied_to("webdav-other", tmp_path, refusal, None) as copied:
        points = [copied.back_up(0, same="same", a="a", b="b")]
        done = copied.copy()
        assert (done.new, done.incomplete, done.wrong) == (points, {}, [])


def test_a_full_disk_fails_the_copy_of_a_file_under_another_name(tmp_path: Path) -> None:
    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        if len(path) > LONGEST:
            return 414, b"no"
        return (507, b"no") if command == "PUT" and ".0/" in path else None

    with copied_to("webdav-other", tmp_path, refusal, None) as copied:
        copied.back_up(0, same="same", other="other", **{LONG: "long"})
        with pytest.raises(StorageFailed, match="Insufficient"):
            copied.copy()


@pytest.mark.parametrize("broken", ["first", "second"])
def test_an_error_of_a_copys_own_disk_is_no_loss_of_the_first_repository(broken: str, tmp_path: Path) -> None:
    with renaming_disk(tmp_path / "broken", AS_GIVEN) as disk:
        source = local_folder(write_files(tmp_path / "source", same="same", other="other", lost=BAD.decode()))
        first = disk if broken == "first" else tmp_path / "first"
        point = back_up(source, (tmp_path / "broken/under" if broken == "first" else first) / FOLDER).snapshot
        second = Store(of_directory(disk if broken == "second" else tmp_path / "second"), Event())
        done = copying.copy(Store(of_directory(first), Event()), second, FOLDER)
        header = second.header(FOLDER, point)
    assert header is not None
    if broken == "first":
        assert (header.complete, done.incomplete) == (True, {})
        assert [each.partition(" differs from its manifest")[0] for each in done.wrong] == ["'lost'"]
    else:
        assert (header.complete, done.wrong) == (False, [])
        assert [each.partition(":")[0] for each in done.incomplete[point]] == ["1 file was not copied", "lost"]
