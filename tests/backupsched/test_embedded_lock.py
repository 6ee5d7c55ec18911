"""The lock of the embedded server's files: a process that does not release it is named, and not waited for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backupsched.embedded import EmbeddedDatabaseAway, lock

HOLD = """
import pathlib, sys
from backupsched.embedded import lock
with lock.held(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_process_that_was_stopped_with_the_lock_is_named(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGSTOP)
        with pytest.raises(EmbeddedDatabaseAway) as raised, lock.held(file, patience=0.1):
            pass
        assert f"{file} is held by process {holder.pid}" in str(raised.value)
        assert f"`kill -CONT {holder.pid}`" in str(raised.value)
        holder.send_signal(signal.SIGCONT)
        holder.communicate(b"")
    with lock.held(file):
        assert file.read_text() == str(os.getpid())
    assert file.stat().st_mode & 0o777 == 0o600
