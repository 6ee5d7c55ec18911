"""Workers of `manage.py worker` that deliver to receivers on loopback, and are killed at the end."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.jobs.worker_processes import Programs

ENVIRONMENT = {"BACKUPSCHED_LEASE": "8", "BACKUPSCHED_CALLBACKS_ALLOWED": "127.0.0.0/8"}

Start = Callable[[], "subprocess.Popen[bytes]"]


@contextmanager
def delivering_workers(directory: Path) -> Iterator[Start]:
    """What starts one for the queue of deliveries; `directory` gets their logs."""
    programs = Programs(directory)
    yield lambda: programs.run("manage.py", "worker", "--queues", "callbacks", **ENVIRONMENT)
    programs.end()
