"""The rclone engine against real peers: what it copies, keeps and counts."""

import dataclasses
import gzip
import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from engines import engine_for
from engines.base import EngineProgress, Verdict
from external.processes.programs import find_rclone
from storage.places.location import of_directory
from tests.engines.peers import (
    STARTED_AT,
    back_up,
    held,
    local_folder,
    new_host_key,
    point,
    points,
    run,
    s3_bucket,
    serving,
    sftp_host,
    specification,
    task_for,
    tree,
    webdav_share,
    write_files,
)
from tests.storage.repositories import encrypted
from tests.waiting import PATIENCE

TIMED_BYTES = 200_000
FILES = {"a.txt": "alpha", "sub/b.txt": "beta", "-rf": "dash", "q:a,'b\"c.txt": "quotes", "träume/ü.txt": "umlaut"}


def test_an_sftp_host_is_entered_with_a_private_key(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", **FILES)
    (tmp_path / "authorized").write_text(new_host_key(tmp_path / "user-key") + "\n")
    pinned = new_host_key(tmp_path / "host-key")
    arguments = (f"--authorized-keys={tmp_path / 'authorized'}", f"--key={tmp_path / 'host-key'}")
    with serving("sftp", files, *arguments) as (address, port):
        secret = (tmp_path / "user-key").read_text()
        source = specification("sftp", address, port=port, options={"user": "u"}, host_key=pinned, secret=secret)
        result = back_up(source, tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert held(tmp_path / "copy") == FILES


def test_each_file_is_in_the_point_with_its_content_whatever_its_name_and_where_it_lies(tmp_path: Path) -> None:
    names = {"plain", "x", "x.rclonelink", "lone.rclonelink", "a\u201b0Ab", "b\u201b", "p.12ab34cd.rclone-partial"}
    names |= {"n" * 251 + ".txt", "ends with a dot.", "space ", "README", "Readme", "e\u0301", "\u00e9", "dir/a"}
    names |= {"DIR/b", *FILES}
    source = write_files(tmp_path / "-x:y,'z\"", **{each: f"of {each}" for each in names})
    destination = tmp_path / "-a:b,c='d' \"e\""
    (source / "y").symlink_to("x")
    (source / "empty").mkdir()
    (source / os.fsdecode(b"bad\xff")).write_text("no UTF-8")
    shown = {each.replace("\u201b", "\u201b\u201b"): f"of {each}" for each in names} | {"bad\u201bFF": "no UTF-8"}
    others = {"y", "dir", "DIR", "sub", "träume", "empty"}
    for _ in range(2):
        result = back_up(local_folder(source), destination)
        assert result.verdict is Verdict.SUCCEEDED, result
        assert point(destination, result.snapshot).keys() == shown.keys() | others
        assert held(destination) == shown
    assert (result.files, result.read, result.unchanged) == (len(shown) + 1, 0, len(shown) + 1), "the link is one"
    result = back_up(local_folder(write_files(tmp_path / "nothing")), tmp_path / "another")
    assert (result.verdict, result.files, result.size) == (Verdict.SUCCEEDED, 0, 0)


@pytest.mark.parametrize(
    "is_encrypted",
    [pytest.param(False, id="cut off"), pytest.param(True, id="a flipped bit under crypt", marks=pytest.mark.slow)],
)
def test_files_are_read_again_when_the_manifest_before_is_damaged(is_encrypted: bool, tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    plain = of_directory(tmp_path / "vault")
    where = {"location": encrypted(plain) if is_encrypted else plain, "folder": "nas-7/nightly"}
    files = local_folder(write_files(tmp_path / "files", one="1", two="22"))
    assert back_up(files, tmp_path, **where).verdict is Verdict.SUCCEEDED
    manifest = max(tmp_path.glob("vault/**/*"), key=lambda each: each.is_file() and each.stat().st_size)
    if is_encrypted:
        sealed = bytearray(manifest.read_bytes())
        sealed[100] ^= 1
        manifest.write_bytes(sealed)
    else:
        *lines, _ = gzip.decompress(manifest.read_bytes()).splitlines(keepends=True)
        manifest.write_bytes(gzip.compress(b"".join(lines)))
    result = back_up(files, tmp_path, **where, started_at=STARTED_AT + timedelta(days=1))
    assert (result.verdict, result.new, result.unchanged) == (Verdict.WARNINGS, 2, 0), result.error
    why = "damaged, or was encrypted with another key" if is_encrypted else "ends too early"
    assert f"{why}: its point cannot be restored whole" in result.warnings[0]
    if not is_encrypted:
        entries = point(tmp_path / "vault/nas-7/nightly", result.snapshot)
        assert {path: entry.digest_from for path, entry in entries.items()} == {"one": "copy", "two": "copy"}


def test_excluded_files_and_folders_are_in_no_new_point_and_stay_in_the_old_one(tmp_path: Path) -> None:
    names = {"a.txt": "a", "b.tmp": "b", "cache/c": "c", "sub/old/d": "d", "older": "e"}
    files = local_folder(write_files(tmp_path / "files", **names))
    first = back_up(files, tmp_path / "copy")
    exclude = ["*.tmp", "/cache/**", "old"]
    result = back_up(files, tmp_path / "copy", options={"exclude": exclude, "transfers": 1})
    assert (result.verdict, result.files, result.removed) == (Verdict.SUCCEEDED, 2, 3)
    assert held(tmp_path / "copy") == {"a.txt": "a", "older": "e"}
    assert held(tmp_path / "copy", first.snapshot) == names
    with sftp_host(tmp_path / "files") as host:
        back_up(host, tmp_path / "remote", options={"exclude": exclude})
    assert held(tmp_path / "remote") == held(tmp_path / "copy"), "one meaning for each kind of source"


def test_an_sftp_host_is_copied_byte_for_byte_and_its_links_are_not_followed(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", **FILES)
    (files / "link").symlink_to("a.txt")
    (files / "circle").symlink_to(".")
    other = new_host_key(tmp_path / "other")
    with sftp_host(files, "--links") as source:
        # any of several pinned keys will do, as `ssh-keyscan` prints them: a comment, then host and key
        host_key = f"# {source.address}:22 SSH-2.0\n{source.address} {other}\n{source.address} {source.host_key}\n"
        result = back_up(dataclasses.replace(source, host_key=host_key), tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert held(tmp_path / "copy") == FILES
    size = sum(len(text.encode()) for text in FILES.values())
    assert (result.files, result.size, result.read) == (5, size, size)
    assert sorted(os.listdir(tmp_path / "copy")) == ["files", "lock", "manifests"]
    entries = point(tmp_path / "copy", result.snapshot)
    assert {path: (entry.digest, entry.digest_from) for path, entry in entries.items() if entry.kind == "file"} == {
        path: (hashlib.sha256(text.encode()).hexdigest(), "copy") for path, text in FILES.items()
    }


@pytest.mark.parametrize(("path", "copied"), [("photos", FILES), ("photos/sub", {"b.txt": "beta"})])
def test_a_bucket_or_a_prefix_of_it_is_copied_byte_for_byte(path: str, copied: dict[str, str], tmp_path: Path) -> None:
    write_files(tmp_path / "buckets/photos", **FILES)
    with s3_bucket(tmp_path / "buckets") as source:
        result = back_up(dataclasses.replace(source, path=path), tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert held(tmp_path / "copy") == copied


def test_a_webdav_share_is_copied_and_a_change_without_another_size_is_noticed(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", note="one", **FILES)
    for each in ("note", *FILES):
        os.utime(files / each, (1_700_000_000, 1_700_000_000))
    with webdav_share(files) as source:
        back_up(source, tmp_path / "copy")
        assert held(tmp_path / "copy") == FILES | {"note": "one"}
        write_files(files, note="two")
        result = back_up(source, tmp_path / "copy")
    assert (result.verdict, result.read) == (Verdict.SUCCEEDED, 3)
    assert held(tmp_path / "copy")["note"] == "two"


def test_each_run_makes_a_point_whatever_the_clock_says_and_changes_no_earlier_one(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", changed="before", deleted="gone soon", same="same")
    (files / "changed").chmod(0o640)
    back_up(local_folder(files), tmp_path / "copy")
    (files / "deleted").unlink()
    for text, started_at in (("x", STARTED_AT), ("yy", STARTED_AT), ("", STARTED_AT - timedelta(days=1))):
        write_files(files, **({"changed": text} if text else {}))
        back_up(local_folder(files), tmp_path / "copy", started_at=started_at)
    names = [f"20261121T065755Z{number}" for number in ("", "-2", "-3", "-4")]
    assert points(tmp_path / "copy") == names
    assert [held(tmp_path / "copy", each) for each in names] == [
        {"changed": "before", "deleted": "gone soon", "same": "same"},
        {"changed": "x", "same": "same"},
        {"changed": "yy", "same": "same"},
        {"changed": "yy", "same": "same"},
    ]
    assert set(tree(tmp_path / "copy/files")) == {
        *(f"{names[0]}/{each}" for each in ("changed", "deleted", "same")),
        f"{names[1]}/changed",
        f"{names[2]}/changed",
    }
    first = point(tmp_path / "copy", names[0])
    assert [first[path].mode for path in ("changed", "same")] == [0o640, 0o644]


def test_another_content_of_the_same_size_and_time_is_noticed_where_the_source_is_a_folder_of_this_host(
    tmp_path: Path,
) -> None:
    files = write_files(tmp_path / "files", database="one", touched="same")
    os.utime(files / "database", (1_700_000_000, 1_700_000_000))
    back_up(local_folder(files), tmp_path / "copy")
    (files / "touched").chmod(0o600)
    write_files(files, database="two")
    os.utime(files / "database", (1_700_000_000, 1_700_000_000))
    result = back_up(local_folder(files), tmp_path / "copy")
    assert (result.changed, result.unchanged, result.read) == (1, 1, 3)
    assert held(tmp_path / "copy") == {"database": "two", "touched": "same"}
    assert point(tmp_path / "copy", result.snapshot)["touched"].mode == 0o600
    back_up(local_folder(files), tmp_path / "copy")  # which looks once more at what changed right before its run
    write_files(files, database="six")
    os.utime(files / "database", (1_700_000_000, 1_700_000_000))
    for _ in range(2):  # the second one brings nothing that was in doubt, either
        result = back_up(local_folder(files), tmp_path / "copy", options={"ignore_ctime": True})
        assert (result.changed, result.read) == (0, 0)


def test_a_source_whose_path_is_a_link_is_the_folder_behind_it_or_failed_in_words(tmp_path: Path) -> None:
    write_files(tmp_path / "files", a="a", **{"sub/b": "b"})
    for name, target in (("link", "files"), ("second", "link"), ("nowhere", "gone"), ("file", "files/a")):
        (tmp_path / name).symlink_to(tmp_path / target)
    for name in ("link", "second"):
        result = back_up(local_folder(tmp_path / name), tmp_path / f"copy of {name}")
        assert (result.verdict, held(tmp_path / f"copy of {name}")) == (Verdict.SUCCEEDED, {"a": "a", "sub/b": "b"})
    for name in ("nowhere", "file"):
        result = back_up(local_folder(tmp_path / name), tmp_path / f"copy of {name}")
        assert result.error == f"there is no directory {tmp_path / name} here"


def test_links_are_in_the_manifest_alone_and_a_listener_that_fails_ends_no_backup(tmp_path: Path) -> None:
    def fail(progress: EngineProgress) -> None:
        raise ConnectionError("the database is away")

    files = write_files(tmp_path / "files", a="a")
    (files / "link").symlink_to("/etc")
    (files / "circle").symlink_to(".")
    os.link(files / "a", files / "b")
    for _ in range(2):
        result = run(task_for(local_folder(files), tmp_path / "copy"), fail)
        assert result.verdict is Verdict.SUCCEEDED, result
        entries = point(tmp_path / "copy", result.snapshot)
        assert [(each.path, each.kind, each.target, each.linked) for each in entries.values()] == [
            ("a", "file", "", ""),
            ("b", "file", "", "a"),
            ("circle", "link", ".", ""),
            ("link", "link", "/etc", ""),
        ]
        assert (held(tmp_path / "copy"), len(tree(tmp_path / "copy/files"))) == ({"a": "a", "b": "a"}, 1)
    # what was a link is a folder now: nothing is written where the link led
    (files / "link").unlink()
    write_files(files, **{"link/passwd": "mine"})
    assert back_up(local_folder(files), tmp_path / "copy").verdict is Verdict.SUCCEEDED
    assert held(tmp_path / "copy") == {"a": "a", "b": "a", "link/passwd": "mine"}


def test_a_bad_option_is_named_and_a_timetable_is_refused_where_rclone_would_refuse_it() -> None:
    check = engine_for("sftp").check_options
    for options, message in (
        ({"transfers": True}, "'transfers' must be a whole number"),
        ({"bwlimit": "10"}, "'bwlimit' must be bytes per second"),
        ({"exclude": "*.tmp"}, "'exclude' must be a list"),
        (
            {"tranfsers": 4},
            "unknown option 'tranfsers'; rclone takes transfers, checkers, bwlimit, exclude, ignore_ctime, checksum",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            check(options)
    with pytest.raises(ValueError, match=r"'ftp'; known kinds: sftp, s3, webdav, local,"):
        engine_for("ftp")
    refused = ("08:00,512k, 19:00,10M", "24:00,1M", "8:00,1M", "08:60,1M", "day-08:00,1M", "08:00,1X", "08:00,-1M")
    for limit in ("0.5M", "08:00,512k 19:00,10M 23:00,off", "Mon-08:00,512K sun-23:59,off", *refused):
        is_refused = limit in refused
        with pytest.raises(ValueError, match=r"in the zone of the") if is_refused else nullcontext():
            check({"bwlimit": limit})
        rclone = subprocess.run([find_rclone(), "version", f"--bwlimit={limit}"], check=False, capture_output=True)
        assert (rclone.returncode != 0) is is_refused, limit


def zones_of_two_days(hour: int) -> tuple[str, str]:
    """Two in which it is never the same day, and midnight is two hours away, at that hour of UTC."""
    if 2 <= hour < 11:
        return "Etc/GMT+12", "UTC"
    return ("UTC", "Pacific/Kiritimati") if 11 <= hour < 22 else ("Etc/GMT+12", "Pacific/Kiritimati")


@pytest.mark.slow
def test_a_timetable_goes_by_the_clock_of_the_policy(tmp_path: Path) -> None:
    files = local_folder(write_files(tmp_path / "files", a="a" * TIMED_BYTES))
    now = datetime.now(UTC)
    zones = zones_of_two_days(now.hour)
    days = [f"{now.astimezone(ZoneInfo(zone)):%a}".lower() for zone in zones]
    assert days[0] != days[1]
    options = {"bwlimit": f"{days[0]}-00:00,off {days[1]}-00:00,2K"}  # all of it would take a hundred seconds
    stop, seen = threading.Event(), list[int]()

    def look(progress: EngineProgress) -> None:
        seen.extend([progress.bytes_done] if 0 < progress.bytes_done < TIMED_BYTES else [])
        if len(seen) > 1:  # half a second after the first look it is still at work
            stop.set()

    def copy(zone: str, on_progress: Callable[[EngineProgress], None]) -> Verdict:
        task = task_for(files, tmp_path / "copies" / zone, options=options, zone=zone)
        return run(task, on_progress, stop).verdict

    began = time.monotonic()
    assert copy(zones[0], lambda progress: None) is Verdict.SUCCEEDED
    assert time.monotonic() - began < PATIENCE
    assert copy(zones[1], look) is Verdict.STOPPED
