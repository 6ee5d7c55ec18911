"""The cluster of periodic tasks waits for a database that is away, in one line, and ends when it is asked to."""

import os
import signal
from pathlib import Path

import pytest

from tests.jobs.worker_processes import Programs
from tests.waiting import PATIENCE, eventually


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_waits_for_a_database_that_is_away_and_ends_with_its_process_group(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        cluster = programs.run("manage.py", "qcluster", DATABASE_URL="postgresql://127.0.0.1:1/none")
        eventually(lambda: "waiting for the database" in programs.log())
        assert cluster.poll() is None
        assert "Traceback" not in programs.log()
        asked_as_a_group = programs.run("manage.py", "qcluster")
        eventually(lambda: "running." in programs.log(1))
        os.killpg(asked_as_a_group.pid, signal.SIGTERM)
        assert asked_as_a_group.wait(PATIENCE) == 0
    finally:
        programs.end()
