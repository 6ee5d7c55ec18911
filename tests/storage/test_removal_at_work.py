"""Removal by rclone itself: in folders, on servers and in buckets, some of which give nothing back."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from storage import layout
from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points import checking, removal, runs
from storage.points.store import Store
from storage.points.trees import versions_of
from tests.delivery.queue_servers import QueueServer
from tests.engines.peers import free_port, loopback_address, small_disk
from tests.engines.served import serving
from tests.storage.played_history import check, played_at, unnamed
from tests.storage.played_runs import ASSIGNMENT, Played
from tests.storage.repositories import KEY
from tests.storage.stepping import Killed

pytestmark = pytest.mark.slow

ODD = "-new 'quoted'\\ ␤ line #träume"
ONE_AT_A_TIME = ("--transfers=1", "--checkers=1")
"""`rclone serve sftp` sometimes refuses one of several files that are written into a new folder at once."""


@dataclass(frozen=True)
class Interrupted(Store):
    """The real one, killed before one of its calls of rclone."""

    left: list[int] = field(default_factory=lambda: [10**9])

    def run(self, *arguments: str, **options: Any) -> bool:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise Killed
        return super().run(*arguments, **options)


@contextlib.contextmanager
def repository(kind: str, folder: Path) -> Iterator[Location]:
    """A repository of a kind, as `encrypted sftp`."""
    key = KEY if "encrypted" in kind else None
    with contextlib.ExitStack() as served:
        if "folder" in kind:
            (folder / "there").mkdir(parents=True)
            yield remotes.location_of(str(folder / "there"), {}, {}, key)
        else:
            settings, secrets, path = served.enter_context(serving(kind.split()[-1], folder))
            yield remotes.location_of(path, settings, secrets, key)


@pytest.mark.parametrize("kind", ["folder", "sftp", "webdav-other", "encrypted s3"])
def test_rclone_removes_points_whatever_it_is_killed_before(kind: str, tmp_path: Path) -> None:
    first = played_at(tmp_path / "first")
    removed = [first.back_up({"a": "1", ODD: "odd", "deep/er/file": "x"}), first.back_up({"a": "2", ODD: "other"})]
    first.back_up({"a": "2", ODD: "third"})
    goes = [first.points()[0], *removed]
    with repository(kind, tmp_path / "served") as location:

        def fetched(number: int) -> Played:
            Store(location, Event()).run("copy", "--create-empty-src-dirs", location.root, str(tmp_path / f"{number}"))
            return Played(tmp_path / f"{number}", expected=first.expected)

        Store(location, Event()).run("copy", *ONE_AT_A_TIME, str(first.root), location.root)
        for calls in count(0, 3 if location.is_plain else 4):
            try:
                found = removal.remove(Interrupted(location, Event(), left=[calls]), ASSIGNMENT, goes)
            except Killed:
                check(fetched(calls))
            else:
                break
        after = fetched(10**6)
    check(after)
    assert (after.points(), unnamed(after)) == (list(found.present), set())
    assert len(found.present) == len(first.points()) - 3
    left = {each for each in after.files.rglob("*") if each.is_dir() and not any(each.iterdir())}
    assert left == set()


def test_all_of_an_assignment_goes_with_its_folders(tmp_path: Path) -> None:
    played = played_at(tmp_path)
    (other := tmp_path / "other-1/nightly/files").mkdir(parents=True)
    size = sum(file.stat().st_size for file in played.files.rglob("*") if file.is_file())
    found = removal.remove_all(Store(of_directory(tmp_path), Event()), ASSIGNMENT)
    assert (len(found.points), found.freed, other.exists()) == (5, size, True)
    assert not played.folder.parent.exists()
    assert removal.remove_all(Store(of_directory(tmp_path), Event()), ASSIGNMENT).points == ()


def test_a_full_disk_is_emptied(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2**20) as disk:
        played = Played(disk)
        for content in "xyz":
            played.back_up({"large": content * 200_000, "small": content})
        with contextlib.suppress(OSError), (disk / "full").open("wb") as file:
            while True:
                file.write(b"x")
                file.flush()
        removed = removal.remove(Store(of_directory(disk), Event()), ASSIGNMENT, played.points()[1:2])
        assert removed.freed == 200_001
        check(played)


def test_a_bucket_that_keeps_what_is_deleted_has_its_points_removed_all_the_same(tmp_path: Path) -> None:
    """By markers: the room is held, until a lock ends. Kept points are whole."""
    first = played_at(tmp_path / "first")
    goes = first.points()[1:3]
    with object_server(tmp_path) as (location, bucket):
        store = Store(location, Event())
        store.run("copy", str(first.root), location.root)
        before = len(versions(bucket))
        found = removal.remove(store, ASSIGNMENT, goes)
        assert (found.points, runs.points(store, ASSIGNMENT)) == (tuple(goes), list(found.present))
        store.run("copy", location.root, str(tmp_path / "after"))
        after = Played(tmp_path / "after", expected=first.expected)
        check(after)
        assert unnamed(after) == set()
        assert len(versions(bucket)) >= before, "nothing of it is gone"
        assert removal.remove(store, ASSIGNMENT, goes).points == ()
        assert removal.remove_all(store, ASSIGNMENT).points == found.present
        assert runs.points(store, ASSIGNMENT) == []


def test_what_a_bucket_has_archived_is_named_and_keeps_nothing_else_back(tmp_path: Path) -> None:
    """Rules of a bucket move old objects there: old manifests, and old files that new points name."""
    first = played_at(tmp_path / "first")
    points = first.points()
    with object_server(tmp_path, is_locked=False) as (location, bucket):
        store = Store(location, Event())
        store.run("copy", str(first.root), location.root)
        old, file = layout.manifest_path(ASSIGNMENT, points[1]), f"{ASSIGNMENT}/files/{points[-1]}/a"
        for each, tier in ((old, "GLACIER"), (file, "DEEP_ARCHIVE")):
            place = {"Bucket": "vault", "Key": f"backups/{each}"}
            bucket.copy_object(**place, CopySource=place, StorageClass=tier)
        found = versions_of(store, ASSIGNMENT, points, "e/f/g", tmp_path / "cache")
        assert [each["points"] for each in found if "GLACIER" in each.get("why", "")] == [[points[1]]]
        assert sum(len(each["points"]) for each in found) == len(points)
        done = checking.check(store, ASSIGNMENT, part="", after="", total=0, share=1.0)
        assert {(each.place, "GLACIER" in each.why) for each in done.damaged} == {
            (layout.MANIFESTS, True), (f"{points[-1]}/a", True),
        }  # fmt: skip
        removed = removal.remove(store, ASSIGNMENT, points[:1])
        assert ([*removed.points], list(removed.damaged)) == ([], [points[1]])


@contextlib.contextmanager
def object_server(folder: Path, *, is_locked: bool = True) -> Iterator[tuple[Location, Any]]:
    """A server with a bucket; `is_locked`: it has versions, each locked for a day."""
    server = QueueServer(loopback_address(), free_port(loopback_address()), folder / "log")
    server.start()
    try:
        client = server.client_of("s3")
        where = {"LocationConstraint": client.meta.region_name}
        client.create_bucket(Bucket="vault", CreateBucketConfiguration=where, ObjectLockEnabledForBucket=is_locked)
        rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
        lock = {"ObjectLockEnabled": "Enabled", "Rule": rule}
        if is_locked:
            client.put_object_lock_configuration(Bucket="vault", ObjectLockConfiguration=lock)
        settings = {"type": "s3", "provider": "Other", "endpoint": server.url, "access_key_id": "key"}
        settings |= {"force_path_style": "true"}
        yield remotes.location_of("vault/backups", settings, {"secret_access_key": "secret"}, None), client
    finally:
        server.kill()


def versions(client: Any) -> list[Any]:
    found: list[Any] = client.list_object_versions(Bucket="vault").get("Versions", [])
    return found
