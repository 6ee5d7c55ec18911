"""Workers of `manage.py worker` that deliver to receivers on loopback, and are killed at the end."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from tests.jobs.worker_processes import database_url

LEASE_SECONDS = 8

Start = Callable[[], subprocess.Popen[bytes]]


@contextmanager
def delivering_workers(directory: Path) -> Iterator[Start]:
    """What starts one for the queue of deliveries; `directory` gets their logs."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "backupsched.settings",
        "DATABASE_URL": database_url(),
        "BACKUPSCHED_LEASE": str(LEASE_SECONDS),
        "BACKUPSCHED_CALLBACKS_ALLOWED": "127.0.0.0/8",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "worker", "--queues", "callbacks"]
        with (directory / f"log-{len(started)}").open("wb") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
