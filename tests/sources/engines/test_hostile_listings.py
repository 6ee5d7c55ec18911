"""What a source lists: names that lead elsewhere, links, names that are one, and listings without end."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sources.backups import repositories
from sources.engines.base import Verdict
from tests.sources.engines.hostile_host import DIRECTORY, FILE, LINK, TEXT, hostile_host
from tests.sources.engines.hostile_share import hostile_share
from tests.sources.engines.peers import PASSWORD, back_up, local_folder, specification, task_for, tree, write_files
from tests.sources.engines.redirecting import server
from tests.sources.engines.test_redirects import FIELDS
from tests.sources.engines.test_redirects import back_up as back_up_from
from tests.sources.strangers import talker

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
"""As which rclone shows `..`."""


def test_no_name_and_no_link_of_an_sftp_host_leads_out_of_the_copy(tmp_path: Path) -> None:
    def listing(path: bytes) -> Iterator[tuple[bytes, int]]:
        if path == b"/":
            yield from ((name, FILE) for name in ODD)
            yield from ((name, DIRECTORY) for name in (b"..", b".", b"a/../..", b"../.."))
            yield b"link", LINK
            yield b"folder", DIRECTORY
        else:
            yield from ((b"inner", FILE), (b"../../outer", FILE), (b"..", DIRECTORY), (b"link", LINK))

    with hostile_host(listing, lambda path: path in (b"/", b"/folder")) as source:
        first, second = (back_up(source, tmp_path / "deep/deeper/copy") for _ in range(2))
    assert first.verdict is second.verdict is Verdict.WARNINGS, (first.error, second.error)
    assert second.files == second.unchanged == first.files
    # `..` is a name like any other in the copy, and no way up on the host
    beside = ("inner", "outer")
    names = [*ODD.values(), *(f"{top}/{name}" for top in ("folder", UP) for name in beside)]
    assert tree(tmp_path) == {f"deep/deeper/copy/current/{name}": TEXT.decode() for name in names} | {
        "deep/deeper/copy/lock": "",
        "deep/deeper/copy/manifests/20261121T065755Z.jsonl.gz": "",
        "deep/deeper/copy/manifests/20261121T065755Z-2.jsonl.gz": "",
    }
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_a_path_of_a_share_that_leads_out_of_the_copy_is_left_out_and_named(tmp_path: Path) -> None:
    with server("127.0.0.1") as share:
        share.files = {"a.txt": "alpha", "%2e%2e%2f%2e%2e%2foutside": "evil", "..%2foutside": "evil"}
        result = back_up_from("webdav", share, tmp_path / "deep/copy")
    assert result.verdict is Verdict.WARNINGS
    assert f"{UP}/{UP}/outside: " in "; ".join(result.warnings)
    assert tree(tmp_path) == {
        "deep/copy/current/a.txt": "alpha",
        "deep/copy/lock": "",
        "deep/copy/manifests/20261121T065755Z.jsonl.gz": "",
    }


def test_of_two_names_that_differ_in_their_unicode_form_only_the_one_that_is_left_out_is_named(tmp_path: Path) -> None:
    written = {"\u00e9": "composed", "e\u0301": "decomposed", "gone": "soon"}
    files = write_files(tmp_path / "files", **written)
    for _ in range(2):
        result = back_up(local_folder(files), tmp_path / "copy")
        assert result.verdict is Verdict.WARNINGS
        assert "1 file was not copied" in result.warnings
        (files / "gone").unlink(missing_ok=True)
    assert len(tree(tmp_path / "copy/current")) == 1


def test_a_listing_without_end_is_ended_before_it_fills_the_memory(tmp_path: Path, settings: Any) -> None:
    settings.ENGINE_MEMORY_MIB = 96
    with hostile_share(1, endless=True) as source:
        task = task_for(source, tmp_path / "copy")
        result = repositories.back_up(task, on_progress=lambda progress: None, stop=threading.Event())
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "BACKUPSCHED_ENGINE_MEMORY" in result.error


@pytest.mark.slow
def test_a_secret_that_a_share_repeats_is_struck_out_wherever_its_words_are_cut(tmp_path: Path) -> None:
    with hostile_share(1, refusal=PASSWORD * 60) as source:
        result = back_up(replace(source, secret=PASSWORD), tmp_path / "copy")
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "***" in result.error
    assert not any(part in result.error for part in PASSWORD.split("-"))


BANNERS = (b"SSH-2.0-Private_9.6\r\n", b'220 private "mail\r\n', b"HTTP/1.1 200 OK\r\nprivate\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "banner"), [*(("webdav", each) for each in BANNERS), ("s3", BANNERS[1])])
def test_what_another_service_says_at_the_port_is_not_repeated(kind: str, banner: bytes, tmp_path: Path) -> None:
    with talker(banner, hang_up=True) as (address, port):
        result = back_up(specification(kind, f"http://{address}:{port}", **FIELDS[kind]), tmp_path / "copy")
    assert result.verdict is Verdict.SOURCE_FAILED
    assert "private" not in result.error.lower()
