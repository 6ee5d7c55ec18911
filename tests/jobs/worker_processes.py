"""Starts workers as processes of their own, and kills what is left of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from django.conf import settings
from django.db import connection

from tests.waiting import eventually

LEASE_SECONDS = 2
SHORT_LEASE = {"BACKUPSCHED_LEASE": str(LEASE_SECONDS)}
"""For those that are to lose it."""
LONG_LEASE = {"BACKUPSCHED_LEASE": "3600"}
"""That of all others: it outlasts a machine that stands still, and its heartbeat, every 15 min, finds nothing."""
RESCUING_LEASE = {"BACKUPSCHED_LEASE": "20"}
"""For those that are to rescue: they do so when the server has run for a lease."""
SCRIPT = Path(__file__).parent / "worker_script.py"


def database_url() -> str:
    """The test's own database."""
    database = connection.get_connection_params()
    password = f":{database['password']}" if database.get("password") else ""
    host = str(database.get("host") or "").replace("/", "%2F")
    return f"postgresql://{database['user']}{password}@{host}:{database.get('port') or 5432}/{database['dbname']}"


class WorkerProcesses:
    """Workers with the handlers of `worker_script.py`. `log(n)` is what the n-th has said so far."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(self, grace: float = 20, **environment: str) -> subprocess.Popen[bytes]:
        """Start one and wait until it is about to work. `environment` is added to its own."""
        number = len(self.started)
        ready = self.directory / f"ready-{number}"
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "backupsched.settings",
            "DATABASE_URL": database_url(),
            **LONG_LEASE,
            "PYTHONPATH": str(settings.BASE_DIR),
            "WORKER_READY": str(ready),
            **environment,
        }
        with (self.directory / f"log-{number}").open("wb") as log:
            process = subprocess.Popen([sys.executable, str(SCRIPT), str(grace)], env=environment, stderr=log)
        self.started.append(process)
        eventually(ready.exists)
        return process

    def log(self, number: int) -> str:
        return (self.directory / f"log-{number}").read_text()

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
