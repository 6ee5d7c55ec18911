"""`python -m proving.chaos` from beginning to end."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from proving.chaos.__main__ import main
from proving.chaos.server import make_directory, remove_directory
from tests.proving.chaos.commands import run

pytestmark = pytest.mark.slow

SEED = "7"
SHORT = ("--minutes", "0.05", "--seed", SEED, "--workers", "2", "--lease", "2")


@pytest.fixture
def place() -> Iterator[Path]:
    """The folder in which the storm makes its directory, so that its remains are seen."""
    directory = make_directory()
    yield directory
    remove_directory(directory)


def left_behind(place: Path) -> list[Any]:
    """Files, and processes that have to do with the directory."""
    processes = [process.info for process in psutil.process_iter(["pid", "cmdline"])]
    return [*place.iterdir(), *[found for found in processes if str(place) in " ".join(found["cmdline"] or [])]]


def test_a_short_storm_balances_and_leaves_nothing_behind(place):
    report = run(place, "proving.chaos", *SHORT)
    assert report["discrepancies"] == []
    assert report["seed"] == int(SEED)
    assert sum(report["by_status"].values()) == report["records"] > 500
    assert sum(report["by_outcome"].values()) == report["attempts"]
    assert report["deeds"]
    assert left_behind(place) == []


@pytest.mark.parametrize("kind", ["directory", "shared"])
def test_a_short_storm_over_storage_restores_all_and_leaves_nothing_behind(place, kind):
    report = run(place, "proving.chaos.storage", "--kind", kind, "--seconds", "0.5", "--seed", SEED)
    assert (report["seed"], report["problems"]) == (int(SEED), [])
    assert report["deeds"]
    assert report["verified"] >= report["points"] >= 4
    assert left_behind(place) == []


def test_bad_arguments_are_refused_before_anything_starts(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["chaos", "--workers", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--workers is a number from 2" in capsys.readouterr().err
