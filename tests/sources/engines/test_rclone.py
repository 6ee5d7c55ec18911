"""The rclone engine against real peers: what it copies, keeps and counts."""

import dataclasses
import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sources.engines import engine_for
from sources.engines.base import EngineProgress, EngineResult, SourceSpec, Verdict
from tests.sources.engines.peers import (
    STARTED_AT,
    local_folder,
    new_host_key,
    s3_bucket,
    serving,
    sftp_host,
    specification,
    task_for,
    tree,
    webdav_share,
    write_files,
)

FILES = {"a.txt": "alpha", "sub/b.txt": "beta", "-rf": "dash", "q:a,'b\"c.txt": "quotes", "träume/ü.txt": "umlaut"}


def back_up(source: SourceSpec, destination: Path, **fields: Any) -> EngineResult:
    task = task_for(source, destination, **fields)
    return engine_for(source.kind).run(task, on_progress=lambda progress: None, stop=threading.Event())


def test_an_sftp_host_is_copied_byte_for_byte(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", **FILES)
    with sftp_host(files) as source:
        result = back_up(source, tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert tree(tmp_path / "copy/current") == FILES
    size = sum(len(text.encode()) for text in FILES.values())
    assert (result.files, result.size, result.transferred) == (5, size, size)
    assert result.snapshot == str(tmp_path / "copy/current")
    assert sorted(os.listdir(tmp_path / "copy")) == ["current", "lock", "versions"]


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
    assert tree(tmp_path / "copy/current") == FILES


def test_any_of_several_pinned_host_keys_will_do(tmp_path: Path) -> None:
    other = new_host_key(tmp_path / "other")
    with sftp_host(write_files(tmp_path / "files", a="a")) as source:
        # as `ssh-keyscan` prints them: a comment, then host and key
        host_key = f"# {source.address}:22 SSH-2.0\n{source.address} {other}\n{source.address} {source.host_key}\n"
        result = back_up(dataclasses.replace(source, host_key=host_key), tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error


def test_a_bucket_is_copied_byte_for_byte(tmp_path: Path) -> None:
    write_files(tmp_path / "buckets/photos", **FILES)
    with s3_bucket(tmp_path / "buckets") as source:
        result = back_up(source, tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert tree(tmp_path / "copy/current") == FILES


def test_a_prefix_of_a_bucket_is_copied(tmp_path: Path) -> None:
    write_files(tmp_path / "buckets/photos", **FILES)
    with s3_bucket(tmp_path / "buckets") as source:
        result = back_up(dataclasses.replace(source, path="photos/sub"), tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert tree(tmp_path / "copy/current") == {"b.txt": "beta"}


def test_a_webdav_share_is_copied_byte_for_byte(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", **FILES)
    with webdav_share(files) as source:
        result = back_up(source, tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert tree(tmp_path / "copy/current") == FILES


def test_a_changed_file_of_the_same_size_on_a_webdav_share_is_noticed(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", note="one")
    os.utime(files / "note", (1_700_000_000, 1_700_000_000))
    with webdav_share(files) as source:
        back_up(source, tmp_path / "copy")
        write_files(files, note="two")
        result = back_up(source, tmp_path / "copy")
    assert result.transferred == 3
    assert tree(tmp_path / "copy/current") == {"note": "two"}


def test_a_local_folder_with_an_odd_name_is_copied_to_a_destination_with_an_odd_name(tmp_path: Path) -> None:
    files = write_files(tmp_path / "-x:y,'z\"", **FILES)
    destination = tmp_path / "-a:b,c='d' \"e\""
    result = back_up(local_folder(files), destination)
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert tree(destination / "current") == FILES


def test_a_file_with_the_longest_possible_name_is_copied(tmp_path: Path) -> None:
    name = "n" * 251 + ".txt"
    result = back_up(local_folder(write_files(tmp_path / "files", **{name: "a"})), tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result.error
    assert tree(tmp_path / "copy/current") == {name: "a"}


def test_an_empty_source_becomes_an_empty_directory(tmp_path: Path) -> None:
    result = back_up(local_folder(write_files(tmp_path / "files")), tmp_path / "copy")
    assert (result.verdict, result.files, result.size) == (Verdict.SUCCEEDED, 0, 0)
    assert os.listdir(tmp_path / "copy/current") == []


def test_an_empty_directory_is_kept(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", a="a")
    (files / "empty").mkdir()
    back_up(local_folder(files), tmp_path / "copy")
    assert (tmp_path / "copy/current/empty").is_dir()


def test_what_did_not_change_is_protected_but_not_transferred_again(tmp_path: Path) -> None:
    files = local_folder(write_files(tmp_path / "files", a="alpha", b="beta"))
    back_up(files, tmp_path / "copy")
    result = back_up(files, tmp_path / "copy")
    assert (result.files, result.size, result.transferred) == (2, 9, 0)
    assert os.listdir(tmp_path / "copy/versions") == []


def test_changed_and_deleted_files_are_kept_as_a_version(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", changed="before", deleted="gone soon", same="same")
    back_up(local_folder(files), tmp_path / "copy")
    write_files(files, changed="afterwards")
    (files / "deleted").unlink()
    back_up(local_folder(files), tmp_path / "copy", started_at=STARTED_AT + timedelta(days=1))
    assert tree(tmp_path / "copy/current") == {"changed": "afterwards", "same": "same"}
    assert tree(tmp_path / "copy/versions") == {
        "20261122T065755Z/changed": "before",
        "20261122T065755Z/deleted": "gone soon",
    }


def test_only_the_newest_versions_are_kept(tmp_path: Path) -> None:
    files = tmp_path / "files"
    for day in range(5):
        write_files(files, note="x" * (day + 1))
        started_at = STARTED_AT + timedelta(days=day)
        back_up(local_folder(files), tmp_path / "copy", started_at=started_at, keep_versions=2)
    assert sorted(os.listdir(tmp_path / "copy/versions")) == ["20261124T065755Z", "20261125T065755Z"]


def test_two_runs_within_one_second_keep_both_versions(tmp_path: Path) -> None:
    for text in ("1", "22", "333"):
        back_up(local_folder(write_files(tmp_path / "files", note=text)), tmp_path / "copy")
    assert tree(tmp_path / "copy/versions") == {"20261121T065755Z/note": "1", "20261121T065755Z-2/note": "22"}


def test_symbolic_links_are_counted_in_a_warning_and_never_followed(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", a="a")
    (files / "link").symlink_to("/etc")
    result = back_up(local_folder(files), tmp_path / "copy")
    assert (result.verdict, result.warnings) == (Verdict.WARNINGS, "1 symbolic link was not copied")
    assert tree(tmp_path / "copy/current") == {"a": "a"}


def test_links_of_an_sftp_host_are_never_followed(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", **{"a": "a", "sub/b": "b"})
    (files / "link").symlink_to("a")
    (files / "circle").symlink_to(".")
    with sftp_host(files, "--links") as source:
        result = back_up(source, tmp_path / "copy")
    assert result.verdict is Verdict.SUCCEEDED, result
    assert tree(tmp_path / "copy/current") == {"a": "a", "sub/b": "b"}


def test_excluded_files_leave_the_copy_for_a_version(tmp_path: Path) -> None:
    files = local_folder(write_files(tmp_path / "files", **{"a.txt": "a", "b.tmp": "b", "cache/c": "c"}))
    back_up(files, tmp_path / "copy")
    result = back_up(files, tmp_path / "copy", options={"exclude": ["*.tmp", "/cache/**"], "transfers": 1})
    assert (result.verdict, result.files) == (Verdict.SUCCEEDED, 1)
    assert tree(tmp_path / "copy/current") == {"a.txt": "a"}
    assert sorted(tree(tmp_path / "copy/versions")) == ["20261121T065755Z/b.tmp", "20261121T065755Z/cache/c"]


@pytest.mark.slow
def test_progress_is_told_while_it_copies(tmp_path: Path) -> None:
    write_files(tmp_path / "files", big="x" * 300_000)
    told: list[EngineProgress] = []
    task = task_for(local_folder(tmp_path / "files"), tmp_path / "copy", options={"bwlimit": "200K"})
    engine_for("local").run(task, on_progress=told.append, stop=threading.Event())
    assert any(0 < progress.bytes_done < 300_000 and progress.bytes_total == 300_000 for progress in told)
    assert told[-1] == EngineProgress(300_000, 300_000, 1)


def test_a_listener_that_fails_does_not_end_the_backup(tmp_path: Path) -> None:
    def fail(progress: EngineProgress) -> None:
        raise ConnectionError("the database is away")

    task = task_for(local_folder(write_files(tmp_path / "files", a="a")), tmp_path / "copy")
    result = engine_for("local").run(task, on_progress=fail, stop=threading.Event())
    assert result.verdict is Verdict.SUCCEEDED


@pytest.mark.parametrize("value", [{"transfers": 0}, {"transfers": True}, {"bwlimit": "10"}, {"exclude": "*.tmp"}])
def test_a_bad_option_is_named(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(value))):
        engine_for("sftp").check_options(value)


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown option 'tranfsers'; rclone takes transfers, checkers, bwlimit, excl"):
        engine_for("s3").check_options({"tranfsers": 4})


def test_an_unknown_kind_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'ftp'; known kinds: sftp, s3, webdav, local, postgresql"):
        engine_for("ftp")
