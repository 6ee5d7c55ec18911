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

LONGEST_SECONDS = 300
"""A quarter of a minute on two idle cores, which six processes may share."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST_SECONDS + 60)]

SMALL = ("--repeats", "1", "--jobs", "100", "--others", "0")


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


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not pytest's: the server's user must be able to reach it."""
    path = Path(tempfile.mkdtemp(prefix="test-bench-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_a_drain_is_measured(directory):
    found = measure(directory, "drain", *SMALL, "--only", "ours-async")
    assert found["failures"] == []
    assert {(row["case"], row["contestant"]) for row in found["measured"]} == {
        ("1 worker", "ours-async"),
        ("2 workers", "ours-async"),
    }
    assert found["machine"]["postgresql"]["fsync"] == "on"
    assert list(directory.iterdir()) == []
