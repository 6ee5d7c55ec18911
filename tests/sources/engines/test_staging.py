"""Directories of this host in which what a repository cannot take as it comes lies as files."""

from pathlib import Path
from typing import Any

import pytest

from sources.backups import staging as directories
from sources.engines import staging
from sources.engines.base import RunEnded
from sources.engines.staging import staged
from sources.storage.locks import Busy
from tests.sources.engines.peers import eventually, local_folder, small_disk, task_for
from tests.sources.factories import make_assignment

MIB = 2**20


def test_it_stays_between_runs_belongs_to_one_of_them_and_no_other_account_looks_into_it(tmp_path: Path) -> None:
    root = tmp_path / "staging"
    task = task_for(local_folder(tmp_path), tmp_path / "copy", folder="nas-7/nightly", staging=str(root))
    with staged(task) as directory:
        (directory / "file").write_text("fetched")
        with pytest.raises(Busy, match="another run"), staged(task):
            pass
        assert not staging.remove(root, "nas-7/nightly")
    with staged(task) as directory:
        assert (directory / "file").read_text() == "fetched"
    assert root.stat().st_mode & 0o077 == 0


def test_nothing_is_staged_on_a_disk_that_is_short_of_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 * MIB) as disk:
        (disk / "other").write_bytes(b"x" * 15 * MIB)
        task = task_for(local_folder(tmp_path), tmp_path / "copy", staging=str(disk / "staging"), reserve=1)
        with pytest.raises(RunEnded, match="no room to stage it"), staged(task):
            pass


@pytest.mark.django_db(transaction=True)
def test_it_goes_with_its_assignment_and_with_a_retired_source(tmp_path: Path, settings: Any) -> None:
    settings.VAR_DIR = tmp_path
    used, retired = make_assignment(directory="nas-1/nightly"), make_assignment(directory="nas-2/nightly")
    for folder in ("nas-1/nightly", "nas-2/nightly", "nas-3/hourly"):
        (tmp_path / "staging" / folder / "current").mkdir(parents=True)
    retired.source.retired = True
    retired.source.save()
    assert directories.remove_unused() == 2
    eventually(lambda: staging.unused(tmp_path / "staging", [used.directory]) == [], "the others are gone")
    assert (tmp_path / "staging/nas-1/nightly/current").is_dir()
