"""`python -m chaos` from beginning to end."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings

from chaos.server import make_directory, remove_directory
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

SEED = "7"
SHORT = ("--minutes", "0.1", "--seed", SEED, "--workers", "2", "--lease", "2")


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the storm makes its directory, so that what it leaves behind is seen."""
    directory = make_directory()
    yield directory
    remove_directory(directory)


def start(place: Path, *arguments: str) -> "subprocess.Popen[str]":
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BACKUPSCHED_VAR")}
    return subprocess.Popen(
        [sys.executable, "-m", "chaos", *arguments],
        cwd=settings.BASE_DIR,
        env={**kept, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_behind(place: Path) -> list[Any]:
    """Files, and processes that have to do with the directory."""
    processes = [process.info for process in psutil.process_iter(["pid", "cmdline"])]
    return [*place.iterdir(), *[found for found in processes if str(place) in " ".join(found["cmdline"] or [])]]


def test_a_short_storm_balances_and_leaves_nothing_behind(place):
    output, progress = start(place, *SHORT, "--json").communicate()
    report = json.loads(output)
    assert report["discrepancies"] == [], progress
    assert report["seed"] == int(SEED)
    assert sum(report["by_status"].values()) == report["records"] > 1000
    assert sum(report["by_outcome"].values()) == report["attempts"]
    assert report["deeds"]
    assert left_behind(place) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--workers", "1"], "--workers is a number from 2")],
)
def test_bad_arguments_are_refused_before_anything_starts(place, arguments, said):
    storm = start(place, *arguments)
    _, complaint = storm.communicate(timeout=PATIENCE)
    assert storm.returncode == 2
    assert said in complaint
    assert left_behind(place) == []
