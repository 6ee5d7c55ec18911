"""A source that drips: its run is ended where its policy names a least rate, and nowhere else."""

import threading
from pathlib import Path

import pytest

from sources.engines import engine_for, limits
from sources.engines.base import RunEnded, Verdict
from tests.sources.engines.hostile_share import hostile_share
from tests.sources.engines.peers import task_for, tree

KIB = 1024
DRIP = b"x" * KIB
"""Every 50 ms: 20 KiB/s."""


@pytest.mark.slow
def test_a_source_that_drips_is_ended_and_nothing_of_its_file_stays(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", 1.0)
    with hostile_share(10**12, DRIP, pause=0.05) as source:
        task = task_for(source, tmp_path / "copy", least_rate=1000 * KIB)
        result = engine_for("webdav").run(task, on_progress=lambda _: None, stop=threading.Event())
    assert result.verdict is Verdict.SOURCE_FAILED, result.error
    assert "the least rate of its policy is 1,024,000" in result.error
    assert tree(tmp_path / "copy/current") == {}


def test_time_in_which_nothing_is_fetched_does_not_count(monkeypatch) -> None:
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
