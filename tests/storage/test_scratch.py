"""Scratch folders: those of killed processes go, and nothing else."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from storage.folders.scratch import PREFIX, remove_left, scratch_in


def make_levels(folder: Path) -> None:
    """Folders in folders, whose paths are too long for any call that gets one; read-only."""
    (folder / "files").mkdir()
    top = os.open(folder / "files", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("a" * 250, dir_fd=top)
        below = os.open("a" * 250, os.O_RDONLY, dir_fd=top)
        os.fchmod(top, 0o500)
        os.close(top)
        top = below
    os.close(os.open("letter", os.O_CREAT, dir_fd=top))
    os.close(top)


def killed_in(parent: Path) -> None:
    """A process that is killed while it has a scratch folder, in which a folder is read-only."""
    if not (child := os.fork()):
        try:
            with scratch_in(parent) as folder:
                (folder / "docs").mkdir()
                (folder / "docs/letter").write_text("decrypted")
                (folder / "docs").chmod(0o500)
                make_levels(folder)
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_the_next_one_removes_what_a_killed_process_has_left_and_none_that_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "rename")  # some mounts copy all that is in a folder
    with scratch_in(tmp_path / "new") as used:
        (used / "file").write_text("on its way")
        make_levels(used)
        killed_in(tmp_path / "new")
        assert len(list(used.parent.iterdir())) == 2
        with scratch_in(used.parent) as next_one:
            assert {*used.parent.iterdir()} == {used, next_one}
            assert used.stat().st_mode & 0o777 == 0o700
        assert (used / "file").exists()
    assert not list(used.parent.iterdir())


def test_a_look_removes_no_file_no_other_folder_and_nothing_that_a_link_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meets_too_many_levels(*_: Any, **__: Any) -> None:
        raise RecursionError

    monkeypatch.setattr(shutil, "rmtree", meets_too_many_levels)
    killed_in(tmp_path)
    (there := tmp_path / "restored").mkdir()
    (there / "file").write_text("kept")
    (tmp_path / f"{PREFIX}link").symlink_to(there)
    (tmp_path / f"{PREFIX}file").write_text("kept")
    others = {there, tmp_path / f"{PREFIX}link", tmp_path / f"{PREFIX}file"}
    assert (remove_left(tmp_path), {*tmp_path.iterdir()}) == (1, others)
    assert (remove_left(tmp_path / "missing"), (there / "file").read_text()) == (0, "kept")
