"""The bench as a process, with few jobs: that it measures, checks, and leaves nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.processes import below
from tests.waiting import eventually

LONGEST_SECONDS = 300
"""A quarter of a minute on two idle cores, which six processes may share."""


@pytest.fixture
def directory():
    """Not pytest's: the server's user must be able to reach it."""
    path = Path(tempfile.mkdtemp(prefix="test-bench-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def measured_by(directory: Path, *arguments: str) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "DJANGO_"))}
    ended = subprocess.run(
        [sys.executable, "-m", "proving.bench", *arguments, "--repeats", "1", "--json"],
        cwd=settings.BASE_DIR, env={**kept, "TMPDIR": str(directory)}, capture_output=True, text=True,
        timeout=LONGEST_SECONDS,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr + ended.stdout
    found: dict[str, Any] = json.loads(ended.stdout)
    assert found["failures"] == []
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(LONGEST_SECONDS + 60)
def test_one_that_is_ended_as_by_timeout_ends_its_child_and_its_server(directory):
    argv = [sys.executable, "-m", "proving.bench", "drain", "--jobs", "100", "--others", "0", "--only", "ours-async"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "DJANGO_"))}
    bench = subprocess.Popen(
        argv, cwd=settings.BASE_DIR, env={**kept, "TMPDIR": str(directory)}, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip

    left = eventually(lambda: below("proving.bench.child", pid=bench.pid), LONGEST_SECONDS)

    def has_ended_by_another() -> bool:
        bench.send_signal(signal.SIGTERM)
        return bench.poll() is not None

    eventually(has_ended_by_another, LONGEST_SECONDS)
    assert bench.communicate(timeout=LONGEST_SECONDS)[1].endswith(b"stopped\n")
    assert bench.returncode == 130
    eventually(lambda: not any(each.is_running() for each in left))
    assert list(directory.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(LONGEST_SECONDS + 60)
def test_a_drain_is_measured(directory):
    found = measured_by(directory, "drain", "--jobs", "100", "--others", "0", "--only", "ours-async")
    measured = {(row["case"], row["contestant"]) for row in found["measured"]}
    assert measured == {("1 worker", "ours-async"), ("2 workers", "ours-async")}
    assert found["machine"]["postgresql"]["fsync"] == "on"
    assert list(directory.iterdir()) == []


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(LONGEST_SECONDS + 60)
def test_pages_and_commands_are_measured_with_what_they_read(directory):
    found = measured_by(directory, "pages", "--sources", "1000", "--surfaces", "home-facts,API /sources,backlog`")
    notes = {row["case"]: row["note"] for row in found["measured"]}
    assert {"home-facts", "API /sources", "API /sources ?status=failing", "`backlog`"} <= notes.keys()
    for note in notes.values():
        assert re.match(r"\d+ statements, [1-9][\d,]* rows", note), notes
    assert "\nSELECT " in found["remarks"][0]  # of the statement that took longest, whichever it was
    assert list(directory.iterdir()) == []
