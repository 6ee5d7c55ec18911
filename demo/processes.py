"""Starts processes that cannot outlive the demo, and ends them: only those it started, by id."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 20.0


def start(
    argv: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None, given: bytes = b""
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; what it prints goes to `log`. On Linux it dies with this thread.

    `given`: its standard input, of a few hundred bytes at most.
    """
    with log.open("ab") as output, tempfile.TemporaryFile() as standard_input:
        standard_input.write(given)
        standard_input.seek(0)
        return subprocess.Popen(
            argv,
            stdin=standard_input,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )


def start_kept(
    argv: Sequence[str], *, log: Path, folder: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a keeper (demo/keeper.py): it sees the end of this process by its standard input, which stays empty."""
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=folder,
            start_new_session=True,
        )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end(processes: Sequence[subprocess.Popen[bytes]], *, grace: float = GRACE_SECONDS) -> None:
    """End these processes: SIGTERM to all, SIGKILL to whatever is left of their groups after `grace` seconds."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + grace
    for process in processes:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(max(0.05, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
