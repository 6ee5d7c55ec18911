"""The folder that is copied; orders at repositories need no process but where that is the point, and wait for no
disk."""

from pathlib import Path

import pytest

from tests.engines.scratch_space import scratch
from tests.storage.quick_disks import no_waits_for_disks, waits_for_disks

__all__ = ["no_waits_for_disks", "scratch", "waits_for_disks"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    (files / "letter.txt").write_bytes(b"Dear bank\n" * 100)
    return files


@pytest.fixture(autouse=True)
def _orders_run_here(request: pytest.FixtureRequest) -> None:
    if not request.node.get_closest_marker("own_process"):
        request.getfixturevalue("orders_run_here")
