"""Hostile listings of a source: names and links that lead elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.base import EngineResult, Verdict
from engines.rclone.listing import QUOTED
from engines.rclone.log import RcloneLog
from engines.results import without_secrets
from storage.places.rclone import _message
from storage.points.files import raw
from storage.restic.verdicts import problem_of
from tests.engines import sftp_hosts as host
from tests.engines.peers import back_up, held, local_folder, specification, task_for, tree
from tests.engines.redirecting import server

ODD = {
    b"new\nline": "new\nline",
    b"Icon\r": "Icon\r",
    b"nul\0byte": "nul\u2400byte",
    b"red\x1b[31m": "red\x1b[31m",
    b"Case": "Case",
    b"case": "case",
    b"-rf": "-rf",
    b"../above": "above",
    b"/etc/absolute": "absolute",
    b"x/../../../../../beside": "beside",
}
"""Names that an SFTP host sends, and what they are in the copy."""
UP = "\uff0e\uff0e"
"""The form in which rclone shows `..`."""


def test_no_name_and_no_link_of_an_sftp_host_leads_out_of_the_copy(tmp_path: Path) -> None:
    def listing(path: bytes) -> Iterator[tuple[bytes, int]]:
        if path == b"/":
            yield from ((name, host.FILE) for name in ODD)
            yield from ((name, host.DIRECTORY) for name in (b"..", b".", b"a/../..", b"../.."))
            yield b"link", host.LINK
            yield b"folder", host.DIRECTORY
        else:
            files = ((name, host.FILE) for name in (b"inner", b"../../outer"))
            yield from (*files, (b"..", host.DIRECTORY), (b"link", host.LINK))

    with host.hostile_host(listing, lambda path: path in (b"/", b"/folder")) as source:
        first, second = (back_up(source, tmp_path / "deep/deeper/copy") for _ in range(2))
    assert first.verdict is second.verdict is Verdict.WARNINGS, (first, second)
    assert second.files == second.unchanged == first.files
    # `..` is a name like any other in the copy, and no way up on the host
    beside = ("inner", "outer")
    names = [*ODD.values(), *(f"{top}/{name}" for top in ("folder", UP) for name in beside)]
    assert {raw(path) for path in held(tmp_path / "deep/deeper/copy")} == set(names)
    below = {each.relative_to(tmp_path).parts[:4] for each in tmp_path.rglob("*") if each.is_file()}
    assert below == {("deep", "deeper", "copy", each) for each in ("lock", "manifests", "files")}
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_a_path_of_a_share_that_leads_out_of_the_copy_is_left_out_and_named(tmp_path: Path) -> None:
    with server("127.0.0.1") as share:
        share.files = {"a.txt": "alpha", "%2e%2e%2f%2e%2e%2foutside": "evil", "..%2foutside": "evil"}
        result = back_up(specification("webdav", share.url, path=""), tmp_path / "deep/copy")
    assert result.verdict is Verdict.WARNINGS
    assert f"{UP}/{UP}/outside: " in "; ".join(result.warnings)
    assert tree(tmp_path) == {
        "deep/copy/files/20261121T065755Z/a.txt": "alpha",
        "deep/copy/lock": "",
        "deep/copy/manifests/20261121T065755Z.jsonl.gz": "",
    }


def test_a_name_that_rclone_lists_like_another_one_is_named_and_gets_no_other_name(tmp_path: Path) -> None:
    names = {
        "two\u201b\u201bof": b"two",
        "one\u201bof": b"one",
        "\u201b": b"alone",
        "plain": b"p",
        "\u240a": b"picture",
    }
    with host.sftp_with_limits(names) as source:
        result = back_up(source, tmp_path / "copy")
    assert {raw(path) for path in held(tmp_path / "copy")} == {"plain", "\u240a"}
    assert sum(each.endswith(QUOTED) for each in result.warnings) == 3, result


@pytest.mark.parametrize("name", ["a\nWARNING: all is well", "a\x1b[2J\x1b]0;title\x07", "a\u2028b\x85c\u202ed\x7f"])
def test_a_name_in_a_message_forges_no_line_and_steers_no_terminal(name: str, tmp_path: Path) -> None:
    row = {"level": "error", "msg": f"Failed to copy: open /there/{name}: locked", "object": "a", "objectType": "x"}
    (taken := RcloneLog()).take(json.dumps(row))
    line = json.dumps(row | {"time": "2026"})
    restic = {"message_type": "error", "error": {"Err": 5}, "item": f"/there/{name}"}
    task = task_for(local_folder(tmp_path), tmp_path / "copy")
    warning = problem_of(json.dumps(restic, separators=(",", ":"))) or ""
    result = without_secrets(EngineResult(Verdict.WARNINGS, warnings=(warning,), not_kept=(name,)), task)
    messages = [taken.problems[0].message, _message(line, ())[0], *result.warnings, *result.not_kept]
    assert all(
        each.isprintable() and each.startswith(("Failed to copy: open /there/a", "/there/a", "a")) for each in messages
    )
