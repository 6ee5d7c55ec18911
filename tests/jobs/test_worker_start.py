"""`manage.py worker` as a process, started while the database is away, or where it will never be let in."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from tests.jobs.worker_processes import database_url
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def start(log: Path) -> Iterator[Callable[[str], "subprocess.Popen[bytes]"]]:
    """Starts a worker on the database of a URL."""
    started: list[subprocess.Popen[bytes]] = []

    def start(url: str) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "backupsched.settings"}
        command = [sys.executable, "manage.py", "worker", "--queues=default"]
        with log.open("wb") as output:
            started.append(subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stderr=output))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def let_in(allowed: bool) -> None:
    """New sessions of the test's database: all, or none."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}")


def test_it_says_once_that_it_waits_and_works_once_the_database_is_back(start, log):
    let_in(False)
    try:
        worker = start(database_url())
        eventually(lambda: "waiting for the database" in log.read_text())
    finally:
        let_in(True)
    eventually(lambda: "serves default" in log.read_text())
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert log.read_text().count("waiting for the database") == 1
    assert "the database answers again" in log.read_text()


def test_a_signal_ends_the_wait(start, log):
    worker = start("postgresql://nobody@127.0.0.1:1/none")
    eventually(lambda: "waiting for the database" in log.read_text())
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("part", ["user", "database"])
def test_what_will_never_be_let_in_exits_at_once_and_says_why(part, start, log):
    scheme, _, place = database_url().rpartition("@")
    url = f"{scheme}@{place}_which_is_none" if part == "database" else f"postgresql://nobody:wrong@{place}"
    assert start(url).wait(PATIENCE) == 2
    assert "FATAL" in log.read_text()
    assert "Check DATABASE_URL" in log.read_text()
