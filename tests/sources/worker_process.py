"""`manage.py worker` as a process of its own, on the test's database."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from tests.jobs.worker_processes import database_url
from tests.waiting import PATIENCE


@contextmanager
def worker_process(
    queues: str, directory: Path, grace: float = 5, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker for `queues`, as its option says them; killed at the end. `environment` is added to the test's own.

    What it says goes to `worker.log` in `directory`.
    """
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "worker", "--queues", queues]
    command += ["--grace", str(grace)]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "backupsched.settings",
        "DATABASE_URL": database_url(),
        "LOG_LEVEL": "WARNING",
        **environment,
    }
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
