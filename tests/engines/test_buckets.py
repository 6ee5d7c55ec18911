"""Buckets: keys that no folder can hold, and what tells that an object is another one."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import boto3
import pytest

from engines.base import Verdict
from engines.restores import to_source
from storage.places.location import of_directory
from storage.points.store import Store
from storage.restoring.base import Report, RestoreRefused, Wish
from tests.append_only import append_only
from tests.engines.peers import (
    ACCESS_KEY,
    PASSWORD,
    answers,
    back_up,
    free_port,
    held,
    loopback_address,
    point,
    points,
    specification,
    write_files,
)
from tests.waiting import eventually

pytestmark = pytest.mark.slow
LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""Than any object, so that none is in doubt."""
KEYS = ("x//y", "./z", "x/y", "a", "a/b", "../up", "/top")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of buckets."""
    address = loopback_address()
    port = free_port(address)
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", address, "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            eventually(lambda: answers(address, port))
            yield f"http://{address}:{port}"
        finally:
            server.kill()


@pytest.fixture
def photos(url: str) -> Iterator[tuple[Any, Any]]:
    """A client of a bucket, and the bucket as a source."""
    client = boto3.client(
        "s3", endpoint_url=url, aws_access_key_id="k", aws_secret_access_key=PASSWORD, region_name="us-east-1"
    )
    client.create_bucket(Bucket="photos")
    options = {"access_key_id": "k", "provider": "Other", "region": "us-east-1"}
    yield client, specification("s3", url, path="photos", options=options)
    for each in client.list_objects_v2(Bucket="photos").get("Contents", ()):
        client.delete_object(Bucket="photos", Key=each["Key"])
    client.delete_bucket(Bucket="photos")


def test_keys_of_a_bucket_that_no_folder_can_hold_are_named_and_cost_no_other(
    photos: tuple[Any, Any], tmp_path: Path
) -> None:
    client, source = photos
    for key in KEYS:
        client.put_object(Bucket="photos", Key=key, Body=key.encode())
    client.put_object(Bucket="photos", Key="frozen", Body=b"frozen", StorageClass="GLACIER")
    result = back_up(source, tmp_path / "copy")
    assert result.verdict is Verdict.WARNINGS, result
    assert held(tmp_path / "copy") == {each: each for each in ("x/y", "a", "a/b")}
    entries = point(tmp_path / "copy", result.snapshot).values()
    assert [("GLACIER" in each.why, each.is_kept) for each in entries if each.path == "frozen"] == [(True, False)]
    lacking = [each for each in entries if not each.is_kept and each.path != "frozen"]
    assert len(lacking) >= 4, "each is named"
    assert all("has a name that no folder can hold" in each.why for each in lacking), lacking


def test_an_object_that_was_written_again_is_another_one_whatever_time_its_writer_gave_it(
    photos: tuple[Any, Any], tmp_path: Path
) -> None:
    client, source = photos
    read = []
    for day, text in enumerate(("first", "first", "other")):
        if day != 1:
            put_at_another_second(client, text.encode(), {"mtime": "1700000000"})
        result = back_up(source, tmp_path / "copy", started_at=LATER + timedelta(days=day))
        assert result.verdict is Verdict.SUCCEEDED, result
        read.append(result.read)
        assert held(tmp_path / "copy") == {"note": text}
    assert read == [5, 0, 5]

    def put_back(number: int, **wish: Any) -> Report:
        whole = Wish("copy", points(tmp_path / "copy")[number], Path(), **wish)
        return to_source.put_back(whole, Store(of_directory(tmp_path), Event()), source, tmp_path, lambda step: None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "read", lambda *given: pytest.fail(f"{given} is read"))
        assert put_back(-1).present == 1
    with pytest.raises(RestoreRefused, match="note"):
        put_back(0)
    assert put_back(0, overwrite=True).files == 1
    assert put_back(0).present == 1, "by its bytes"
    put_at_another_second(client, b"third", noted_by_the_restore(client))
    with pytest.raises(RestoreRefused, match="note"):
        put_back(0)


def test_keys_whose_names_no_disk_takes_come_back_into_their_bucket(photos: tuple[Any, Any], tmp_path: Path) -> None:
    client, source = photos
    files = {"k" * 256: b"a key", "a/" + "\u4f60" * 100: b"wide", "b" * 300 + "/below": b"below", "ok": b"ok"}
    for key, body in files.items():
        client.put_object(Bucket="photos", Key=key, Body=body)
    result = back_up(source, tmp_path / "copy")
    assert (result.verdict, result.files) == (Verdict.SUCCEEDED, len(files)), result
    client.delete_object(Bucket="photos", Key="k" * 256)
    client.delete_object(Bucket="photos", Key="b" * 300 + "/below")
    client.put_object(Bucket="photos", Key="a/" + "\u4f60" * 100, Body=b"other")
    wish = Wish("copy", result.snapshot, Path(), overwrite=True)
    store = Store(of_directory(tmp_path), Event())
    report = to_source.put_back(wish, store, source, tmp_path / "cache", lambda step: None)
    assert (report.files, report.present, report.failed) == (3, 1, []), report
    there = [each["Key"] for each in client.list_objects_v2(Bucket="photos")["Contents"]]
    assert {key: client.get_object(Bucket="photos", Key=key)["Body"].read() for key in there} == files


def put_at_another_second(client: Any, body: bytes, metadata: dict[str, str]) -> None:
    """Put the note so that the bucket, which gives whole seconds, lists another time for it than before."""

    def times() -> list[datetime]:
        return [each["LastModified"] for each in client.list_objects_v2(Bucket="photos").get("Contents", ())]

    before = times()

    def put() -> bool:
        client.put_object(Bucket="photos", Key="note", Body=body, Metadata=metadata)
        return times() != before

    eventually(put)


def noted_by_the_restore(client: Any) -> dict[str, str]:
    found: dict[str, str] = client.head_object(Bucket="photos", Key="note")["Metadata"]
    assert "mtime" in found
    return found


def test_a_bucket_is_not_asked_for_each_object_to_learn_that_none_has_changed(tmp_path: Path) -> None:
    write_files(tmp_path / "served/photos", **{f"object{number}": "text" for number in range(40)})
    asked = Counter[str]()

    def count(command: str, *_: Any) -> None:
        asked[command] += 1

    with append_only("s3", tmp_path / "served", [], count) as (settings, _, _):
        options = {"access_key_id": ACCESS_KEY, "provider": "Rclone"}
        source = specification("s3", settings["endpoint"], path="photos", options=options)
        for day, wanted in ((0, (40, 40)), (1, (40, 0))):
            asked.clear()
            result = back_up(source, tmp_path / "copy", started_at=LATER + timedelta(days=day))
            assert (result.verdict, result.files, result.new) == (Verdict.SUCCEEDED, *wanted), result
    assert asked.total() < 10, asked


REFUSALS = {"AccessDenied": 403, "InvalidObjectState": 403, "KMS.DisabledException": 400, "NoSuchKey": 404}


def test_an_object_that_a_bucket_refuses_is_an_exception_and_keeps_its_earlier_content(tmp_path: Path) -> None:
    before, are_refused = dict.fromkeys([*REFUSALS, *(f"object{number}" for number in range(6))], "first"), False
    files = write_files(tmp_path / "served/photos", **before)

    def refusal(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        code = path.partition("?")[0].rpartition("/")[2]
        is_one = are_refused and command == "GET" and code in REFUSALS
        return (REFUSALS[code], f"<Error><Code>{code}</Code></Error>".encode()) if is_one else None

    with append_only("s3", tmp_path / "served", [], refusal) as (settings, _, _):
        options = {"access_key_id": ACCESS_KEY, "provider": "Rclone"}
        source = specification("s3", settings["endpoint"], path="photos", options=options)
        first = back_up(source, tmp_path / "copy", started_at=LATER)
        assert (first.verdict, held(tmp_path / "copy")) == (Verdict.SUCCEEDED, before), first
        are_refused = True
        write_files(files, **dict.fromkeys(before, "second"))
        result = back_up(source, tmp_path / "copy", started_at=LATER + timedelta(days=1))
    assert (result.verdict, result.files) == (Verdict.WARNINGS, len(before)), result
    assert held(tmp_path / "copy") == {name: "first" if name in REFUSALS else "second" for name in before}
    entries = point(tmp_path / "copy", result.snapshot)
    assert {name: entry.as_of for name, entry in entries.items() if entry.why} == dict.fromkeys(
        REFUSALS, first.snapshot
    )
