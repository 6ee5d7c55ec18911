"""Starts workers and other programs of the project as processes of their own, and kills what is left of them: the
fixtures `workers` and `programs`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import connection

from jobs.clock import database_clock
from jobs.models import BacklogRecord, RetryPolicy
from jobs.states import AttemptOutcome, Status
from tests.waiting import eventually

LEASE_SECONDS = 2
SHORT_LEASE = {"BACKUPSCHED_LEASE": str(LEASE_SECONDS)}
"""The lease, in seconds, of workers that are to lose it."""
LONG_LEASE = {"BACKUPSCHED_LEASE": "3600"}
"""That of all others: it outlasts a machine that stands still, and its heartbeat, every 15 min, finds nothing."""
BEATING_LEASE = {"BACKUPSCHED_LEASE": "8"}
"""The lease of workers whose heartbeat, every 2 s, is to find something."""
SCRIPT = Path(__file__).parent / "worker_script.py"


def database_url() -> str:
    """The test's own database."""
    database = connection.get_connection_params()
    password = f":{quote(database['password'], safe='')}" if database.get("password") else ""
    host = str(database.get("host") or "").replace("/", "%2F")
    return f"postgresql://{database['user']}{password}@{host}:{database.get('port') or 5432}/{database['dbname']}"


class Programs:
    """Processes with their children, each in a group of its own, on the test's database. `log(n)`: that of the n-th."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def run(self, *arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        """Start Python with these. `environment` is added to its own."""
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "backupsched.settings",
            "DATABASE_URL": database_url(),
            "PYTHONPATH": str(settings.BASE_DIR),
            **environment,
        }
        command = [sys.executable, *arguments]
        with (self.directory / f"log-{len(self.started)}").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=settings.BASE_DIR, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.started.append(process)
        return process

    def log(self, number: int = 0) -> str:
        return (self.directory / f"log-{number}").read_text()

    def end(self) -> None:
        """End all, by the ids of the groups that were started here: a qcluster is several processes."""
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class WorkerProcesses(Programs):
    """Workers with the handlers of `worker_script.py`."""

    def __call__(self, grace: float = 20, **environment: str) -> "subprocess.Popen[bytes]":
        """Start one and wait until it is about to work."""
        ready = self.directory / f"ready-{len(self.started)}"
        process = self.run(str(SCRIPT), str(grace), **{**LONG_LEASE, "WORKER_READY": str(ready), **environment})
        eventually(ready.exists)
        return process

    def put(self, kind: str, **fields: Any) -> BacklogRecord:
        """A ready record. One that hangs is waited for with `wait_for`, and ends when it is `let_go`."""
        payload = {"gate": str(self.directory / f"{kind}-gate"), "started": str(self.directory / f"{kind}-started")}
        facts = {"queue": "default", "subject": kind, "status": Status.READY, "run_after": database_clock()}
        return BacklogRecord.objects.create(kind=kind, payload=payload, **(facts | fields))

    def wait_for(self, *kinds: str) -> None:
        """Until a worker has begun with one of each."""
        for kind in kinds:
            eventually((self.directory / f"{kind}-started").exists)

    def let_go(self, kind: str) -> None:
        (self.directory / f"{kind}-gate").touch()


def outcomes_of(record: BacklogRecord) -> list[AttemptOutcome]:
    """The outcomes of its attempts, in order."""
    return [AttemptOutcome(outcome) for outcome in record.attempts.order_by("number").values_list("outcome", flat=True)]


def once() -> RetryPolicy:
    """A retry policy whose first failure is the last one."""
    return RetryPolicy.objects.get_or_create(name="once", algorithm="constant", max_failures=1)[0]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[WorkerProcesses]:
    workers = WorkerProcesses(tmp_path)
    yield workers
    workers.end()
