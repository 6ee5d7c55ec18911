"""Faults between hosts, with real workers, web, qcluster, agent and servers: `python -m proving.chaos.hosts`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings

from proving.chaos.facts import Execution
from proving.chaos.hosts.faults import FAULTS
from proving.chaos.hosts.lan import NAMESPACES, PREFIX, why_not
from proving.chaos.hosts.overlaps import overlaps
from proving.chaos.server import make_directory, remove_directory
from tests.documents import ROOT, table_rows
from tests.waiting import eventually

PAGE = ROOT / "docs/many-hosts.md"
TESTED = ("partition", "clocks", "promotion", "pooler")
on_hosts = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.needs("iproute2", "ip"),
    pytest.mark.needs("pgbouncer", "pgbouncer"),
    pytest.mark.needs("faketime", "faketime"),
]


def marked(function: Any) -> Any:
    """The marks of a test that has hosts."""
    for mark in on_hosts:
        function = mark(function)
    return function


@pytest.fixture
def place() -> Iterator[Path]:
    """The folder in which the storm makes its directory, so that its remains are seen."""
    if why := why_not():
        pytest.skip(why)
    directory = make_directory()
    yield directory
    remove_directory(directory)


def start(place: Path, *arguments: str) -> "subprocess.Popen[str]":
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BACKUPSCHED_VAR")}
    return subprocess.Popen(
        [sys.executable, "-m", "proving.chaos.hosts", *arguments, "--json"],
        cwd=settings.BASE_DIR,
        env={**kept, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_behind(place: Path, pid: int) -> list[Any]:
    """Files, namespaces, and processes that have to do with the directory."""
    processes = [process.info for process in psutil.process_iter(["pid", "cmdline"])]
    there = [found for found in processes if str(place) in " ".join(found["cmdline"] or [])]
    return [*place.iterdir(), *NAMESPACES.glob(f"{PREFIX}-{pid}-*"), *there]


@marked
@pytest.mark.parametrize("fault", TESTED)
def test_after_a_fault_all_heal_by_themselves_the_books_balance_and_nothing_ran_twice_at_once(fault, place):
    process = start(place, fault, "--seed", "7")
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    (report,) = json.loads(out)
    assert report["discrepancies"] == []
    assert not any(report["lost"].values())
    assert report["by_status"] == {"succeeded": report["records"]}
    assert None not in report["healed"].values()
    assert left_behind(place, process.pid) == []


@marked
def test_ctrl_c_ends_every_process_and_removes_every_namespace(place):
    process = start(place, "partition")
    eventually(lambda: list(place.glob("*/partition/web.log")), seconds=300)
    assert list(NAMESPACES.glob(f"{PREFIX}-{process.pid}-*"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    eventually(lambda: not left_behind(place, process.pid))  # one that was being started ends with its parent


def test_the_page_has_each_fault_and_names_those_that_are_tests():
    rows = table_rows(PAGE, "What was tested")
    assert [fault.split("`")[1] for fault, *_ in rows] == list(FAULTS)
    first, last = ", ".join(f"`{each}`" for each in TESTED[:-1]), TESTED[-1]
    assert f"\n{first} and `{last}` are tests, too" in PAGE.read_text()


def execution(record: int, attempt: int, began: float, ended: float | None, key: str | None = None) -> Execution:
    return Execution(record, attempt, 1, 100 + attempt, "slow", "work", key, (), began, ended)


class TestOverlaps:
    ENDED = {101: 9.0, 102: 20.0}

    def seconds(self, *executions: Execution) -> list[float]:
        return [seconds for _, _, seconds in overlaps(executions, self.ENDED)]

    def test_attempts_of_one_record_may_touch_and_not_overlap(self):
        assert self.seconds(execution(1, 1, 0, 5), execution(1, 2, 5, 6)) == []
        assert self.seconds(execution(1, 1, 0, 5), execution(1, 2, 4, 6)) == [1.0]

    def test_what_was_cut_off_ran_until_its_process_ended(self):
        assert self.seconds(execution(1, 1, 0, None), execution(1, 2, 8, 12)) == [1.0]
        assert self.seconds(execution(1, 1, 0, None), execution(1, 2, 9, 12)) == []

    def test_records_of_one_source_count_as_one(self):
        assert self.seconds(execution(1, 1, 0, 5, "anna"), execution(2, 2, 3, 9, "anna")) == [2.0]
        assert self.seconds(execution(1, 1, 0, 5, "anna"), execution(2, 2, 3, 9, "ben")) == []
