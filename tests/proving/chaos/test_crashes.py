"""A crash of the storm's database while a process that the storm has stopped is about to start it."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from backupsched.embedded import EmbeddedDatabaseAway
from proving.chaos.server import CrashingServer, make_directory, remove_directory

HOLD = """
import fcntl, os, sys
with open(sys.argv[1], "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[CrashingServer]:
    directory = make_directory()
    server = CrashingServer(directory)
    yield server
    server.destroy()
    remove_directory(directory)


@pytest.mark.timeout(60)
def test_waits_for_no_lock(server: CrashingServer) -> None:
    server.layout.home.mkdir(exist_ok=True)
    command = [sys.executable, "-c", HOLD, str(server.layout.lock_file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(EmbeddedDatabaseAway):  # it does not run
                server.stop_at_once()
        finally:
            holder.kill()
