"""The bench as a process, with few jobs: that it measures, checks, and leaves nothing behind."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from django.conf import settings

LONGEST_SECONDS = 300
"""A quarter of a minute on two idle cores, which six processes may share."""


@pytest.fixture
def directory():
    """Not pytest's: the server's user must be able to reach it."""
    path = Path(tempfile.mkdtemp(prefix="test-bench-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(LONGEST_SECONDS + 60)
def test_a_drain_is_measured(directory):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "DJANGO_"))}
    few = ("--repeats", "1", "--jobs", "100", "--others", "0", "--only", "ours-async", "--json")
    ended = subprocess.run(
        [sys.executable, "-m", "bench", "drain", *few],
        cwd=settings.BASE_DIR, env={**kept, "TMPDIR": str(directory)}, capture_output=True, text=True,
        timeout=LONGEST_SECONDS,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr + ended.stdout
    found = json.loads(ended.stdout)
    assert found["failures"] == []
    measured = {(row["case"], row["contestant"]) for row in found["measured"]}
    assert measured == {("1 worker", "ours-async"), ("2 workers", "ours-async")}
    assert found["machine"]["postgresql"]["fsync"] == "on"
    assert list(directory.iterdir()) == []
