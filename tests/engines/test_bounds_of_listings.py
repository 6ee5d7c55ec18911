"""Listings of a source are held on the disk of temporary files, and some servers list without end."""

import tempfile
from pathlib import Path

import pytest

from engines.base import Verdict
from tests.engines.peers import back_up, points, small_disk
from tests.engines.sftp_hosts import FILE, hostile_host


@pytest.mark.parametrize(
    ("bound", "name", "said"),
    [
        ("MOST", b"file%d", "lists more than 300 entries"),
        ("MOST_EXCEPTIONS", b"file\xff%d", "301 entries that the source lists so far cannot be kept"),
        ("LOOK_EVERY", b"file%d", "does not fit on the disk of temporary files"),
    ],
)
def test_a_listing_has_bounds_and_the_next_run_is_whole(
    bound: str, name: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    with (
        small_disk(tmp_path / "temporary", 2**20) as disk,
        hostile_host(lambda path: [(name % number, FILE) for number in range(400)]) as source,
    ):
        monkeypatch.setattr(f"engines.rclone.listing.{bound}", 300)
        if bound == "LOOK_EVERY":
            monkeypatch.setattr(tempfile, "tempdir", str(disk))
            (disk / "full").write_bytes(b"x" * 960_000)
        result = back_up(source, copy, reserve=1.0)
        assert (result.verdict, said in result.error) == (Verdict.SOURCE_FAILED, True), result
        assert points(copy) == []
        monkeypatch.undo()
        assert back_up(source, copy, reserve=1.0).snapshot
