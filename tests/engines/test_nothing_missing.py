"""A point names everything that a source lists: with its file, an earlier one, or the reason why it has none."""

import contextlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.base import EngineResult, SourceSpec, Verdict
from engines.rclone.bringing import Problems
from engines.rclone.comparing import NOT_MOUNTED
from engines.rclone.engine import RcloneEngine
from engines.rclone.listing import gone_of
from engines.rclone.remotes import way_to
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import Judgement
from storage.places import remotes
from storage.places.location import of_directory
from storage.points import removal
from storage.points.store import Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.append_only import DENIED, append_only
from tests.engines.peers import (
    STARTED_AT,
    back_up,
    held,
    local_folder,
    mounted,
    point,
    points,
    run,
    s3_bucket,
    sftp_host,
    specification,
    task_for,
    tree,
    webdav_share,
    write_files,
)
from tests.engines.sftp_hosts import sftp_with_limits
from tests.engines.webdav_shares import Share
from tests.storage.disks import ownerless_disk

LATER = {"started_at": STARTED_AT + timedelta(days=1)}
AWAY_FOR = 5
"""Requests for a folder: the copy asks three times, and each of the first two tries after it once."""
MANY = {f"file{number}": b"%d" % number for number in range(30)}


@pytest.mark.parametrize("status", [403, *(pytest.param(each, marks=pytest.mark.slow) for each in (423, 500))])
def test_a_file_that_a_share_refuses_is_an_exception_and_keeps_its_earlier_content(status: int, tmp_path: Path) -> None:
    share, deep = Share(a=b"first", b=b"first", c=b"first"), "/".join(["d" * 100] * 9)
    with share.served() as source:
        first = back_up(source, tmp_path / "copy")
        assert first.verdict is Verdict.SUCCEEDED, first
        share.files |= {"b": b"second", deep: b"new, and refused", "c": b"second"}
        share.refused = {"b": status, deep: status}
        for day in (1, 2):
            result = back_up(source, tmp_path / "copy", started_at=STARTED_AT + timedelta(days=day))
            assert result.verdict is Verdict.WARNINGS, result
        entries = point(tmp_path / "copy", result.snapshot)
        assert (entries["b"].as_of, entries[deep].is_kept) == (first.snapshot, False)
        assert entries["b"].why == entries[deep].why
        assert str(status) in entries[deep].why
        assert held(tmp_path / "copy") == {"a": "first", "b": "first", "c": "second"}
        store = Store(of_directory(tmp_path), Event())
        headers = [store.header("copy", each) for each in (first.snapshot, result.snapshot)]
        assert [header and header.complete for header in headers] == [True, False]
        share.refused = {}
        assert (
            back_up(source, tmp_path / "copy", started_at=STARTED_AT + timedelta(days=9)).verdict is Verdict.SUCCEEDED
        )
        assert held(tmp_path / "copy") == {"a": "first", "b": "second", "c": "second", deep: "new, and refused"}


@pytest.mark.parametrize("status", [403, pytest.param(503, marks=pytest.mark.slow)])
def test_what_is_not_listed_for_a_while_stays_until_its_source_says_that_it_is_gone(
    status: int, tmp_path: Path
) -> None:
    share = Share(**{"a": b"a", "b": b"b", "sub/c": b"c", "sub/d": b"d", "other/e": b"e"})
    with share.served() as source:
        assert back_up(source, tmp_path / "copy").files == 5
        share.hidden, share.unlisted = {"b": status, "sub": status}, {"other": status}
        for day in (1, 2):
            result = back_up(source, tmp_path / "copy", started_at=STARTED_AT + timedelta(days=day))
            assert result.verdict is Verdict.WARNINGS, result
            assert held(tmp_path / "copy") == {"a": "a", "b": "b", "sub/c": "c", "sub/d": "d", "other/e": "e"}
        share.hidden, share.unlisted = {}, {}
        share.files = {"a": b"a", "sub/d": b"d"}
        result = back_up(source, tmp_path / "copy", started_at=STARTED_AT + timedelta(days=3))
    assert (result.verdict, result.removed) == (Verdict.SUCCEEDED, 3)
    assert held(tmp_path / "copy") == {"a": "a", "sub/d": "d"}


class Flickering(Share):
    """Hides `then` from the second listing of its topmost folder on."""

    then, is_listed = dict[str, int](), False

    def found(self, path: str, is_deep: bool) -> tuple[int, bytes]:
        if is_deep and not path and self.then:
            self.hidden, self.is_listed = self.then if self.is_listed else {}, True
        return super().found(path, is_deep)


def staged(source: SourceSpec, tmp_path: Path, **options: Any) -> tuple[EngineResult, dict[str, str]]:
    """The files that are stored here for restic."""
    task = task_for(source, tmp_path / "copy", options=options)
    result, folder = RcloneEngine().stage(task, tmp_path / "stage", Event(), lambda progress: None)
    return result, tree(folder)


@pytest.mark.parametrize("status", [403, pytest.param(503, marks=pytest.mark.slow)])
def test_what_is_not_listed_for_a_while_stays_in_what_is_stored_here_for_restic(status: int, tmp_path: Path) -> None:
    """What the policy leaves out by now does not."""
    share = Flickering(**{"a": b"a", "b": b"b", "sub/c": b"c", "sub/d": b"d", "x[1]/y": b"y", "old": b"old"})
    share.files |= {"z.tmp": b"z", "sub/z.tmp": b"z", "cache/deep/z": b"z"}
    without: dict[str, Any] = {"exclude": ["*.tmp", "cache/"]}
    with share.served() as source:
        assert staged(source, tmp_path)[0].verdict is Verdict.SUCCEEDED
        share.files["a"] = b"now"
        share.hidden = {"b": status, "sub": status, "x[1]/y": status}
        result, files = staged(source, tmp_path, **without)
        assert files == {"a": "now", "b": "b", "sub/c": "c", "sub/d": "d", "x[1]/y": "y", "old": "old"}, result
        assert min(result.warnings) == "4 files not copied"
        share.hidden, share.then = {}, share.hidden
        result, files = staged(source, tmp_path, **without)
        assert {"b", "sub/c", "sub/d", "x[1]/y"} < files.keys(), "hidden between two listings"
        share.hidden, share.then = {}, {}
        del share.files["sub/c"], share.files["sub/d"], share.files["old"]
        result, files = staged(source, tmp_path, **without)
    assert (result.verdict, files) == (Verdict.SUCCEEDED, {"a": "now", "b": "b", "x[1]/y": "y"}), result
    assert sorted(each.name for each in (tmp_path / "stage/mirror").iterdir()) == ["a", "b", "sub", "x[1]"]


@pytest.mark.parametrize(
    "peer", [webdav_share, *(pytest.param(each, marks=pytest.mark.slow) for each in (sftp_host, s3_bucket))]
)
def test_a_file_that_became_a_folder_comes_and_a_folder_that_became_a_file(peer: Any, tmp_path: Path) -> None:
    top = tmp_path / "served" / ("photos" if peer is s3_bucket else "")
    write_files(top, **{"x": "x", "y/deep/z": "z", "goes": "goes", **dict.fromkeys("abcd", "stays")})
    (top / "empty").mkdir()
    with peer(tmp_path / "served") as source:
        assert staged(source, tmp_path)[0].verdict is Verdict.SUCCEEDED
        assert back_up(source, tmp_path / "copy").verdict is Verdict.SUCCEEDED
        shutil.rmtree(top)
        now = {"x/n": "now in a folder", "y": "now a file", "empty": "not now", **dict.fromkeys("abcd", "stays")}
        write_files(top, **now)
        result, files = staged(source, tmp_path)
        assert (result.verdict, files) == (Verdict.SUCCEEDED, now), result
        result = back_up(source, tmp_path / "copy", **LATER)
    assert (result.verdict, held(tmp_path / "copy")) == (Verdict.SUCCEEDED, now), result


def test_a_host_that_locks_a_file_or_lets_one_be_open_at_a_time_is_backed_up(tmp_path: Path) -> None:
    with sftp_with_limits(MANY | {"NTUSER.DAT": b"locked"}, refused=["NTUSER.DAT"]) as source:
        result = back_up(source, tmp_path / "copy")
    assert (result.verdict, result.files) == (Verdict.WARNINGS, 30), result
    assert any("NTUSER.DAT: " in each for each in result.warnings)
    with sftp_with_limits(MANY, one_at_a_time=True) as source:
        result = back_up(source, tmp_path / "limited")
    assert (result.files, sorted(held(tmp_path / "limited"))) == (30, sorted(MANY)), result


@pytest.mark.slow
def test_a_file_whose_time_a_repository_refuses_is_named_and_costs_no_other(tmp_path: Path) -> None:
    """Nextcloud refuses times of the first day of 1970, and before."""
    files, refused = write_files(tmp_path / "files", a="a", b="b", c="c", first="1970", before="1969"), list[str]()
    for name, time in (("first", 1_000), ("before", -1_000)):
        os.utime(files / name, (time, time))

    def too_old(command: str, path: str, headers: Any) -> tuple[int, bytes] | None:
        return DENIED if command == "PUT" and float(headers.get("X-OC-Mtime") or 86_400) < 86_400 else None

    with append_only("webdav-owncloud", tmp_path / "served", refused, too_old) as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        task = task_for(local_folder(files), tmp_path, location=location, folder="copy")
        for day in (0, 1):
            result = run(replace(task, started_at=STARTED_AT + timedelta(days=day)))
            assert (result.verdict, result.files, len(refused) > 0) == (Verdict.WARNINGS, 3, True), result
    assert {each.partition(":")[0] for each in result.warnings} >= {"first", "before"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("s3", (400, b"<Error><Code>KeyTooLongError</Code><Message>Your key is too long</Message></Error>")),
        ("webdav-other", (414, b"Request-URI Too Large")),
        ("webdav-other", (414, b"URI Too Long")),
    ],
)
def test_a_file_whose_path_is_too_long_for_a_server_is_kept_under_another_name(
    kind: str, answer: tuple[int, bytes], tmp_path: Path
) -> None:
    """A bucket takes keys of 1,024 bytes."""
    long, refused = "/".join(["folder" * 6] * 6), list[str]()
    texts = {"short": "short", f"{long}/a": "long", f"{long}/b": "long, too"}
    with append_only(
        kind, tmp_path / "served", refused,
        lambda command, path, headers: answer if command == "PUT" and len(path) > 200 else None,
    ) as (settings, secrets, path):  # fmt: skip
        location = remotes.location_of(path, settings, secrets, None)
        task = task_for(local_folder(write_files(tmp_path / "files", **texts)), tmp_path, location=location)
        result = run(replace(task, folder="copy"))
        assert (result.verdict, result.files, len(refused) > 1) == (Verdict.SUCCEEDED, 3, True), result
        report = restore(Wish("copy", result.snapshot, tmp_path / "restored"), Store(location, Event()), tmp_path / "x")
    assert (report.failed, tree(tmp_path / "restored")) == ([], texts)


@pytest.mark.parametrize("why", ["api error KeyTooLongError", "414 Request-URI Too Large", "file name too long"])
def test_a_file_whose_name_is_refused_is_not_sent_again_before_it_is_renamed(why: str) -> None:
    problems = Problems(by_path={"a": why, "b": "the server answered 500 Internal Server Error"})
    assert [each for each in "ab" if problems.may_pass(each)] == ["b"]


def test_a_run_fails_where_more_than_half_of_the_files_are_refused(tmp_path: Path) -> None:
    share = Share(a=b"a", b=b"b", c=b"c")
    share.refused = dict.fromkeys("ab", 403)
    with share.served() as source:
        result = back_up(source, tmp_path / "copy")
    assert (result.verdict, points(tmp_path / "copy")) == (Verdict.SOURCE_FAILED, []), result
    assert "more than half" in result.error


@pytest.mark.parametrize("what", ["a disk", "a folder"])
@pytest.mark.parametrize("then", ["empty", "other files", "removed", "never mounted"])
def test_the_files_of_what_is_mounted_in_a_source_stay_while_it_is_not(then: str, what: str, tmp_path: Path) -> None:
    files, name = write_files(tmp_path / "files", a="x"), "my \\ photos of ü"
    (tmp_path / "folder").mkdir()
    options = ("-t", "tmpfs", "none") if what == "a disk" else ("--bind", str(tmp_path / "folder"))
    with contextlib.nullcontext() if then == "never mounted" else mounted(files / name, *options):
        write_files(files, **{f"{name}/one": "1", f"{name}/sub/two": "2", f"{name}-not": "3"})
        first = back_up(local_folder(files), tmp_path / "copy", **LATER)
        assert first.verdict is Verdict.SUCCEEDED, first
        if then == "never mounted":
            shutil.rmtree(files / name)
            (files / name).mkdir()
    if then == "removed":
        (files / name).rmdir()
    if then == "other files":
        write_files(files / name, other="")
    for _ in range(2):
        result = back_up(local_folder(files), tmp_path / "copy", **LATER)
        entries = point(tmp_path / "copy", result.snapshot)
        kept = {path: each.as_of for path, each in entries.items() if path.startswith(f"{name}/") and each.folder}
        if then == "empty":
            assert result.warnings[0] == "4 files were not copied", result
            assert NOT_MOUNTED in result.warnings[1]
            assert kept == {f"{name}/one": first.snapshot, f"{name}/sub/two": first.snapshot}
        else:
            assert (result.verdict, len(kept)) == (Verdict.SUCCEEDED, then == "other files"), result


def test_names_that_a_disk_takes_for_one_lie_apart_and_keep_what_was_theirs(tmp_path: Path) -> None:
    twins = {"Readme": "one", "README": "two", "A/x": "3", "a/x": "4", "é/f": "5", "e\u0301/f": "6", "A/y": "7"}
    source = local_folder(write_files(tmp_path / "source", **twins))
    assert back_up(source, tmp_path / "copy").verdict is Verdict.SUCCEEDED
    assert held(tmp_path / "copy") == twins
    stored = [str(each.relative_to(tmp_path / "copy/files")) for each in (tmp_path / "copy/files").rglob("*")]
    assert len({each.casefold() for each in stored}) == len(stored), "no two meet where case is folded"
    os.rename(tmp_path / "source/Readme", tmp_path / "source/ReadMe")
    back_up(source, tmp_path / "copy", **LATER)
    now = {"ReadMe" if name == "Readme" else name: text for name, text in twins.items()}
    assert held(tmp_path / "copy") == now


@pytest.mark.slow
def test_a_disk_that_folds_case_keeps_what_differs_by_case_and_takes_nothing_a_second_time(tmp_path: Path) -> None:
    twins = {"Readme": "one", "README": "two", "A/x": "3", "a/x": "4", "a/y": "5", "notes.txt": "six"}
    files = write_files(tmp_path / "source", **twins)
    with ownerless_disk(tmp_path / "folding", "--vfs-case-insensitive") as disk:
        (disk / "probe").touch()
        assert (disk / "PROBE").exists()
        for day, read in ((0, 12), (1, 0)):
            result = back_up(local_folder(files), disk / "copy", started_at=STARTED_AT + timedelta(days=day))
            assert (result.verdict, result.read) == (Verdict.SUCCEEDED, read), result
            assert held(disk / "copy") == twins
        os.rename(files / "notes.txt", files / "Notes.txt")
        result = back_up(local_folder(files), disk / "copy", started_at=STARTED_AT + timedelta(days=2))
        now = {"Notes.txt" if name == "notes.txt" else name: text for name, text in twins.items()}
        assert (held(disk / "copy"), held(disk / "copy", points(disk / "copy")[0])) == (now, twins)


def test_a_newest_point_that_was_lost_for_a_while_costs_no_later_one_a_file(tmp_path: Path) -> None:
    """The run without it takes over nothing: else it named again, from the point before, what the lost one does not."""
    files, copy = write_files(tmp_path / "source", b="stays"), tmp_path / "copy"
    made = list[str]()

    def backed_up(text: str) -> EngineResult:
        (files / "a").write_text(text)
        os.utime(files / "a", (1_700_000_000, 1_700_000_000 + int(text)))
        at = STARTED_AT + timedelta(days=len(made))
        result = back_up(local_folder(files), copy, started_at=at, newest=made[-1] if made else "")
        made.append(result.snapshot)
        return result

    def manifest(number: int) -> Path:
        return copy / f"manifests/{made[number]}.jsonl.gz"

    for text in "12":
        backed_up(text)
    manifest(1).rename(tmp_path / "lost")
    without = backed_up("1")
    assert (without.verdict, without.files, without.new) == (Verdict.WARNINGS, 2, 2)
    assert without.warnings[0].startswith(f"point {made[1]} is not in the repository")
    (tmp_path / "lost").rename(manifest(1))
    assert backed_up("1").unchanged == 2, "only once"
    manifest(2).write_bytes(b"damaged")
    removal.remove(Store(of_directory(tmp_path), Event()), "copy", [made[0], made[2]])
    assert [held(copy, each) for each in points(copy)] == [{"a": each, "b": "stays"} for each in "21"]


@pytest.mark.slow
def test_a_folder_that_is_away_for_a_moment_in_mid_copy_is_tried_three_times_more(tmp_path: Path) -> None:
    files = {"a": b"a", "b": b"b", **{f"sub/{number}": b"below" for number in range(3)}}
    share = Share(**files)
    share.away = {"sub": AWAY_FOR}
    with share.served() as source:
        result = back_up(source, tmp_path / "copy")
    assert (result.verdict, result.files) == (Verdict.SUCCEEDED, 5), result
    assert held(tmp_path / "copy") == {name: text.decode() for name, text in files.items()}


def test_that_a_folder_is_gone_is_believed_of_the_exit_code_of_rclone_alone() -> None:
    def asked(code: int) -> set[str]:
        def ask(arguments: tuple[str, ...], on_line: Callable[[str], None]) -> Judgement:
            on_line("what no program can read")
            return Judgement(Verdict.SOURCE_FAILED if code else Verdict.SUCCEEDED, exit_code=code)

        return gone_of(specification("webdav"), ["sub/a", "sub/b"], {"other"}, ask)

    assert [code for code in range(-9, 11) if asked(code)] == [3, 4]


@pytest.mark.slow
def test_what_a_bucket_does_not_have_any_more_is_gone_although_it_names_any_folder(tmp_path: Path) -> None:
    write_files(tmp_path / "served/photos", **{"a": "a", "sub/b": "b"})
    with s3_bucket(tmp_path / "served") as source:
        task = task_for(source, tmp_path / "copy")
        with way_to(source, task.location) as way:
            run = RcloneRun(task, Event(), way=way)
            asked = ["sub/b", "sub/gone", "was/all/gone", "top"]
            assert gone_of(source, asked, {"sub"}, run.ask) == {*asked[1:]}


def test_what_is_no_file_is_counted_by_its_kind_and_is_no_warning(tmp_path: Path) -> None:
    files = write_files(tmp_path / "source", a="a", **{"left out/a": "a"})
    for number in range(12):
        os.mkfifo(files / f"pipe{number:02}")
    os.mkfifo(files / "left out/pipe")
    with contextlib.suppress(PermissionError):
        os.mknod(files / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with contextlib.chdir(files), socket.socket(socket.AF_UNIX) as listener:
        listener.bind("agent")
        result = back_up(local_folder(files), tmp_path / "copy", options={"exclude": ["left out"]})
    assert (result.verdict, result.files) == (Verdict.SUCCEEDED, 1), result
    said = {each.partition(": ")[0]: each.partition(": ")[2] for each in result.not_kept}
    if (files / "null").exists():
        assert said.pop("devices are not kept") == "null"
    assert said.pop("sockets are not kept") == "agent"
    pipes = said.pop("named pipes are not kept")
    assert (pipes.count("pipe"), pipes.endswith(" and 9 more"), said) == (3, True, {})
    header = Store(of_directory(tmp_path), Event()).header("copy", result.snapshot)
    assert (header and header.not_kept, header and header.complete) == (list(result.not_kept), True)


def test_a_point_of_an_sftp_host_says_what_rclone_does_not_tell(tmp_path: Path) -> None:
    files, told = write_files(tmp_path / "host", a="a"), list[str]()
    (files / "link").symlink_to("a")
    with sftp_host(files) as source:
        result = back_up(source, tmp_path / "copy")
        with way_to(source, of_directory(tmp_path)) as way:
            RcloneRun(task_for(source, tmp_path / "copy"), Event(), way=way).ask(
                ("lsjson", "--metadata", "src:/"), told.append
            )
    rows = [json.loads(each.rstrip(",\n")) for each in told if each.startswith("{")]
    assert [(each["Path"], each.get("Metadata")) for each in rows] == [("a", None)], "else modes can be kept"
    assert (result.verdict, held(tmp_path / "copy")) == (Verdict.SUCCEEDED, {"a": "a"})
    assert [each.partition(",")[0] for each in result.not_kept] == ["symbolic and hard links"]
