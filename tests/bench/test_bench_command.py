"""The bench as a process, with few jobs: that it measures, checks, and leaves nothing behind."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

LONGEST_SECONDS = 900
"""Three minutes on two cores that six processes share."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST_SECONDS + 60)]

SMALL = ("--repeats", "1", "--jobs", "100", "--others", "100")


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
    found = measure(directory, "drain", *SMALL, "--only", "ours-async,raw-batched")
    assert found["failures"] == []
    assert contestants(found, "2 workers") == {"ours-async", "raw-batched"}
    assert contestants(found, "100 behind") == contestants(found, "100 beside") == {"ours-async", "raw-batched"}
    assert found["machine"]["postgresql"]["fsync"] == "on"
    assert list(directory.iterdir()) == []
