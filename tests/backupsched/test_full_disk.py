"""A full disk is an ordinary day for backup software: workers wait for room, and lose nothing."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.states import AttemptOutcome, Status
from proving.chaos.server import CrashingServer
from proving.chaos.small_disk import SmallDisk
from tests.copied_database import copy_tables
from tests.waiting import eventually

pytestmark = pytest.mark.slow

PUT = f"""
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, run_after, priority, failures, last_error, attempt, lane)
VALUES ('hang', 'default', 'one', jsonb_build_object('gate', %s::text, 'started', %s::text),
        {Status.READY}, now(), 0, 0, '', 0, 0)
"""


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    directory = Path(tempfile.mkdtemp(prefix="backupsched-disk-"))
    directory.chmod(0o711)
    disk = SmallDisk(directory, megabytes=256)
    try:
        if not disk.mount():
            cannot = "a small disk cannot be mounted here (that takes root)"
            (pytest.fail if os.environ.get("EVERY_TEST_RUNS") == "1" and os.geteuid() == 0 else pytest.skip)(cannot)
        yield disk
    finally:
        disk.unmount()
        directory.rmdir()


@pytest.fixture
def server(disk: SmallDisk, django_db_setup: None) -> Iterator[CrashingServer]:
    server = CrashingServer(disk.directory)
    server.ensure_running()
    yield server
    disk.make_room()
    server.destroy()


def test_a_worker_waits_for_room_when_the_embedded_server_was_killed_on_a_full_disk(disk, server, workers, tmp_path):
    embedded = {"DATABASE_URL": "", "BACKUPSCHED_VAR": str(disk.directory)}
    copy_tables(server.url())
    with server.connect("backupsched") as connection:
        connection.execute(PUT, [str(tmp_path / "gate"), str(tmp_path / "started")])
    worker = workers(**embedded)
    eventually((tmp_path / "started").exists)

    postmaster = server.status().pid
    disk.fill()
    os.kill(postmaster, signal.SIGKILL)
    (tmp_path / "gate").touch()  # the handler ends, and its result cannot be written

    def says_that_it_is_full() -> bool:
        disk.fill()  # what the dead server has freed
        return "is full" in workers.log(0)

    eventually(says_that_it_is_full)
    disk.make_room()
    eventually(lambda: "the database answers again" in workers.log(0))
    with server.connect("backupsched") as connection:
        history = "SELECT outcome FROM jobs_attempt"
        eventually(lambda: connection.execute(history).fetchall() == [(AttemptOutcome.SUCCEEDED,)])
    assert worker.poll() is None
    assert workers.log(0).count("is full") == 1
    assert "Traceback" not in workers.log(0)
