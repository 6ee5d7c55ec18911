"""Restoring to a file system that gives all that is there one owner and one mode, as memory sticks and many network
shares do."""

import os
from pathlib import Path

import pytest

from storage.folders.staging import title_of
from storage.restoring import into_folder
from storage.restoring.base import Report, Wish
from tests.storage.building import ASSIGNMENT, Built
from tests.storage.disks import ownerless_disk


@pytest.mark.slow
def test_a_disk_that_keeps_neither_owners_nor_modes_can_be_restored_to(tmp_path: Path) -> None:
    built = Built(tmp_path / "built")
    built.write("docs/a", "first", 0o600)
    built.write("b", "second")
    point = built.back_up()
    with ownerless_disk(tmp_path / "stick") as disk:

        def restored(*paths: str) -> Report:
            wish = Wish(ASSIGNMENT, point, disk / "to", paths)
            return into_folder.restore(wish, built.store, built.folder / "cache")

        assert restored("b").failed == []
        (disk / f"to/{title_of(ASSIGNMENT, point)}{'a' * 8}.unfinished").mkdir()  # of one that was killed
        opened = len(os.listdir("/proc/self/fd"))
        report = restored()
        assert len(os.listdir("/proc/self/fd")) <= opened, "an open file keeps the disk from being unmounted"
        assert (report.failed, report.files, report.present) == ([], 1, 1)
        assert sorted(os.listdir(disk / "to")) == ["b", "docs"]
        assert (disk / "to/docs/a").read_text() == "first"
