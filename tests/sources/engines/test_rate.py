"""A source that drips: its run is ended where its policy names a least rate, and nowhere else."""

import threading
from pathlib import Path

import pytest

from sources.engines import engine_for, limits
from sources.engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from tests.sources.engines.hostile_share import hostile_share
from tests.sources.engines.peers import local_folder, task_for, tree, write_files

KIB = 1024
DRIP = b"x" * KIB
"""Every 50 ms: 20 KiB/s."""


def run(task: BackupTask, stop_at: float = float("inf")) -> EngineResult:
    """Stopped when it has so many bytes."""
    stop = threading.Event()

    def look(progress: EngineProgress) -> None:
        if progress.bytes_done >= stop_at:
            stop.set()

    return engine_for(task.source.kind).run(task, on_progress=look, stop=stop)


@pytest.mark.slow
def test_a_source_that_drips_is_ended_and_nothing_of_its_file_stays(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 1.0)
    with hostile_share(10**12, DRIP, pause=0.05) as source:
        result = run(task_for(source, tmp_path / "copy", least_rate=1000 * KIB))
    assert result.verdict is Verdict.SOURCE_FAILED, result.error
    assert "the least rate of its policy is 1,024,000" in result.error
    assert tree(tmp_path / "copy/current") == {}


@pytest.mark.slow
@pytest.mark.parametrize("least", [None, KIB])
def test_a_slow_source_goes_on_where_that_is_fast_enough(monkeypatch, tmp_path: Path, least: int | None) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 30.0)  # rclone counts the first bytes after some seconds
    with hostile_share(10**12, DRIP, pause=0.05) as source:
        result = run(task_for(source, tmp_path / "copy", least_rate=least), stop_at=40 * KIB)
    assert result.verdict is Verdict.STOPPED, result.error


def test_an_honest_copy_is_not_ended(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 0.3)
    source = local_folder(write_files(tmp_path / "files", a="a" * 700 * KIB, b="b" * 700 * KIB))
    task = task_for(source, tmp_path / "copy", least_rate=100 * KIB, options={"bwlimit": "1M", "transfers": 1})
    assert run(task).verdict is Verdict.SUCCEEDED


def test_time_in_which_nothing_is_fetched_does_not_count(monkeypatch) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 1e-9)
    watch = limits.LeastRate(1)
    watch.check(0, is_fetching=False)
    watch.check(0, is_fetching=False)
    with pytest.raises(RunEnded):
        watch.check(0, is_fetching=True)
