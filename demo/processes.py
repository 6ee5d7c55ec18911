"""Start processes that cannot outlive the demo, and end them: only those it started, by id. Web, worker and qcluster
count as one: a supervisor starts, logs and ends them.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.conf import settings

from external.processes import supervision
from external.processes.parents import end_with_parent
from external.processes.supervision import SupervisedProcess

GRACE_SECONDS = 20.0

LEASE_SECONDS = 10
WORKERS_GRACE_SECONDS = 3
"""Below the keeper's patience, so a worker ends by itself."""


class DemoError(Exception):
    """The demo cannot continue. The message names the problem, the place, and the remedy."""


def start(
    argv: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    given: bytes = b"",
    kept: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, with its output in `log`. On Linux it dies with this thread.

    `given`: its standard input, of a few hundred bytes at most. `kept`: it is a keeper (demo/keeper.py), which lives
    until it sees the end of this process by its standard input, which stays empty.
    """
    with log.open("ab") as output, tempfile.TemporaryFile() as standard_input:
        standard_input.write(given)
        standard_input.seek(0)
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if kept else standard_input,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=settings.BASE_DIR if kept else None,
            start_new_session=True,
            preexec_fn=None if kept else end_with_parent,
        )


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


def services(*, workers: int, concurrency: int, port: int) -> list[SupervisedProcess]:
    """Web, qcluster and workers, by their names in the log."""
    worker = ("worker", "--concurrency", str(concurrency), "--grace", str(WORKERS_GRACE_SECONDS))
    return [
        SupervisedProcess("web", ("web", "--listen", f"127.0.0.1:{port}")),
        SupervisedProcess("qcluster", ("qcluster",)),
        *(SupervisedProcess(f"worker{number}", worker) for number in range(1, workers + 1)),
    ]


def start_services(home: Path, *, workers: int, concurrency: int, port: int) -> subprocess.Popen[bytes]:
    """Start them, under a keeper that outlives the demo to end them. Their output goes to `home/services.log`."""
    wanted = services(workers=workers, concurrency=concurrency, port=port)
    return start(
        [sys.executable, "-m", "demo.keeper", *supervision.command(wanted, home / "services")],
        log=home / "services.log",
        environment={"BACKUPSCHED_LEASE": str(LEASE_SECONDS), "PYTHONUNBUFFERED": "1"},
        kept=True,
    )
