"""The bench as a process, with few jobs: that it measures, checks, and leaves nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings

from tests.waiting import PATIENCE, eventually

LONGEST_SECONDS = 900
"""Three minutes on two cores that six processes share."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST_SECONDS + 60)]

SMALL = ("--repeats", "1", "--jobs", "300", "--others", "500")


def start(tmp_path: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "DJANGO_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *arguments],
        cwd=settings.BASE_DIR,
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def measure(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    process = start(tmp_path, *arguments, "--json")
    output, said = process.communicate(timeout=LONGEST_SECONDS)
    assert process.returncode == 0, said + output
    found: dict[str, Any] = json.loads(output)
    return found


def contestants(found: dict[str, Any], case: str) -> set[str]:
    return {row["contestant"] for row in found["measured"] if row["case"] == case}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not pytest's: the server's user must be able to reach it."""
    path = Path(tempfile.mkdtemp(prefix="test-bench-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_a_drain_is_measured_with_and_without_others(directory):
    found = measure(directory, "drain", *SMALL, "--only", "ours-async,statements-overlapped,raw-batched")
    assert found["failures"] == []
    assert contestants(found, "2 workers") == {"ours-async", "statements-overlapped", "raw-batched"}
    assert contestants(found, "500 behind") == contestants(found, "500 beside") == {"ours-async", "raw-batched"}
    assert found["machine"]["postgresql"]["fsync"] == "on"
    assert list(directory.iterdir()) == []


def test_the_other_parts_measure_ours_and_the_floor(directory):
    parts = ("enqueue", "latency", "capped", "claim", "pinned", "memory")
    names = "ours-async,raw-batched,raw-single,capped-ours,capped-floor,lanes-ours"
    found = measure(directory, *parts, "--quick", *SMALL, "--only", names)
    assert {row["part"] for row in found["measured"]} == set(parts)
    assert [row["values"] for row in found["measured"] if row["case"] == "overshoots"] == [[0], [0]]


def test_the_parts_on_backups_measure_real_workers_engines_and_requests(directory):
    parts = ("decide", "emission", "sweep", "check-in")
    found = measure(directory, *parts, "--quick", "--assignments", "300", "--absent", "20")
    assert found["failures"] == []
    assert {row["part"] for row in found["measured"]} == set(parts)
    assert [row["values"] for row in found["measured"] if row["case"] == "units taken by absent ones"] == [[0]]
    assert {ratio["target"] for ratio in found["ratios"]} == {"≤ 2", "≥ 0.2", "≤ 3"}
    assert list(directory.iterdir()) == []


def test_a_bench_that_is_stopped_takes_everything_with_it(directory):
    process = start(directory, "drain", "--jobs", "300", "--only", "ours-async", "--repeats", "50")
    assert process.stderr is not None
    while "drain" not in process.stderr.readline():
        assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    eventually(lambda: not any(child.is_running() for child in children))
    assert list(directory.iterdir()) == []
