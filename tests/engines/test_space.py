"""A source that would fill the disk of all, or drips: what ends its run, who is to blame, and that nothing stays."""

import gzip
import threading
from pathlib import Path
from typing import Any

import pytest

from backups.copying import staging as directories
from engines import limits, staging
from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from engines.staging import staged
from storage.places.locks import Busy
from tests.engines.locations import free
from tests.engines.peers import (
    back_up,
    eventually,
    held,
    local_folder,
    run,
    small_disk,
    specification,
    task_for,
    write_files,
)
from tests.engines.webdav_shares import FILE, hostile_share
from tests.sources.factories import make_assignment

MIB = 2**20
DISK = 64 * MIB
RESERVE = DISK // 10


def watched(task: BackupTask, disk: Path) -> tuple[EngineResult, int]:
    """The result, and the least free space that was seen; stopped at its first bytes if it lets nothing else end it."""
    stop, least = threading.Event(), DISK

    def look(progress: EngineProgress) -> None:
        nonlocal least
        least = min(least, free(disk))
        if progress.bytes_done and not task.reserve:
            stop.set()

    return run(task, look, stop), least


def test_a_file_that_is_said_to_be_huge_takes_no_space_before_its_bytes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK) as disk, hostile_share(DISK * 3 // 4, b"x" * 65_536, pause=0.05) as source:
        result, least = watched(task_for(source, disk / "copy"), disk)
        assert result.verdict is Verdict.STOPPED
        assert least > DISK * 7 // 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [{"size": 10**12, "chunk": b"x" * 8192}, {"size": 1, "chunk": gzip.compress(bytes(8192)), "encoding": "gzip"}],
    ids=["plain", "bomb"],
)
def test_a_source_that_sends_without_end_is_stopped_at_the_reserve_and_its_file_named(
    sent: dict[str, Any], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", DISK) as disk, hostile_share(**sent, pause=0.005) as source:
        (disk / "other").write_bytes(b"x" * (DISK * 4 // 5))
        result, least = watched(task_for(source, disk / "copy", reserve=1), disk)
        assert result.verdict is Verdict.FILLED, result.error
        assert FILE in result.error
        assert f"{RESERVE / MIB:.1f} MiB have to stay free" in result.error
        assert 0 < least < RESERVE * 2
        assert free(disk) > DISK * 3 // 16
        assert held(disk / "copy") == {}


@pytest.mark.slow
def test_a_run_that_writes_little_goes_on_while_another_one_fills_the_repository(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK) as disk:
        source, ended = local_folder(write_files(tmp_path / "files", a="a" * MIB, b="b" * MIB)), []

        def fill(_: EngineProgress) -> None:
            if not ended:
                ended.append((disk / "other").write_bytes(b"x" * (free(disk) - RESERVE + MIB)))

        task = task_for(source, disk / "copy", reserve=1, options={"bwlimit": "1M", "transfers": 1})
        result = run(task, fill)
        assert result.verdict is Verdict.SUCCEEDED, result.error
        assert ended


@pytest.mark.parametrize("kind", ["local", "postgresql"])
def test_one_that_is_short_of_space_beforehand_is_full_itself(kind: str, tmp_path: Path) -> None:
    """Files that a killed run left are removed all the same: they may be what fills the disk."""
    with small_disk(tmp_path / "disk", DISK) as disk:
        (disk / "copy/manifests").mkdir(parents=True)
        (disk / "copy/manifests/20261121T065755Z.unfinished").touch()
        dump = "files/20261121T065755Z/database.dump"
        leftover = disk / "copy" / ("files/20261121T065755Z/x.1234abcd.rclone-partial" if kind == "local" else dump)
        leftover.parent.mkdir(parents=True, exist_ok=True)
        leftover.write_bytes(b"x" * MIB)
        (disk / "other").write_bytes(b"x" * (free(disk) - RESERVE + MIB))
        files = local_folder(write_files(tmp_path / "files", a="a"))
        database = specification("postgresql", "127.0.0.1", path="shop")
        task = task_for(files if kind == "local" else database, disk / "copy", reserve=1)
        (disk / "more").write_bytes(b"x" * MIB)
        result, _ = watched(task, disk)
        assert result.verdict is Verdict.REPOSITORY_FAILED, result.error
        assert "have to stay free" in result.error
        assert not leftover.exists()


@pytest.mark.slow
def test_a_source_that_drips_is_ended_and_nothing_of_its_file_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 1.0)
    with hostile_share(10**12, b"x" * 1024, pause=0.05) as source:  # 20 KiB/s
        result = back_up(source, tmp_path / "copy", least_rate=1_024_000)
    assert result.verdict is Verdict.SOURCE_FAILED, result.error
    assert "the least rate of its policy is 1,024,000" in result.error
    assert held(tmp_path / "copy") == {}


def test_time_in_which_nothing_is_fetched_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 1e-9)
    watch = limits.LeastRate(1)
    watch.check(0, is_fetching=False)
    watch.check(0, is_fetching=False)
    with pytest.raises(RunEnded):
        watch.check(0, is_fetching=True)
    for least, written in ((None, 0), (1, 10**9)):
        watch = limits.LeastRate(least)
        watch.check(written, is_fetching=True)
        watch.check(2 * written, is_fetching=True)


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
    eventually(lambda: staging.unused(tmp_path / "staging", [used.directory]) == [])
    assert (tmp_path / "staging/nas-1/nightly/current").is_dir()


@pytest.mark.parametrize(
    ("growing", "named"), [("", ""), ("copies", " with copies"), ("a (5 bytes)", " with a (5 bytes)")]
)
def test_what_fills_a_repository_is_named_if_it_is_known(growing: str, named: str, tmp_path: Path) -> None:
    """A file that has just begun to come is not, and others need not be many."""
    with pytest.raises(RunEnded) as ended:
        limits.Space(tmp_path, 100.0).check(2**60, growing)
    assert str(ended.value).startswith(f"it was ended because it fills the repository{named}: ")
