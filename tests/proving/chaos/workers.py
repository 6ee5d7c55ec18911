"""Starts workers as processes of their own, and ends those that it started."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from tests.jobs.worker_processes import database_url
from tests.waiting import eventually

SCRIPT = Path(__file__).parent / "doomed_worker.py"


class Workers:
    """Workers of the database at `url` (by default the test database), with leases of `lease` seconds."""

    def __init__(self, directory: Path, *, lease: float, url: str | None = None, concurrency: int = 4) -> None:
        self.directory = directory
        self.runs_file = directory / "runs"
        self.started: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "backupsched.settings",
            "DATABASE_URL": url or database_url(),
            "BACKUPSCHED_LEASE": str(lease),
            "PYTHONPATH": str(settings.BASE_DIR),
            "RUNS": str(self.runs_file),
            "CONCURRENCY": str(concurrency),
        }

    def start(
        self, doom: str = "", *, queues: Sequence[str] = ("default",), wait: bool = True, lease: float | None = None
    ) -> subprocess.Popen[bytes]:
        """Start one that serves `queues`, and wait until it is about to work; one with a `doom` ends there.

        `lease`: of this one, in seconds.
        """
        return self._start([doom], [queues], wait=wait, lease=lease)

    def start_doomed(self, dooms: dict[str, str], *, lease: float) -> subprocess.Popen[bytes]:
        """Start one for each queue that ends at its doom. The process that is returned ends when all have, with 0 if
        all were killed."""
        return self._start(list(dooms.values()), [[queue] for queue in dooms], wait=False, lease=lease)

    def _start(
        self, dooms: Sequence[str], queues: Sequence[Sequence[str]], *, wait: bool, lease: float | None
    ) -> subprocess.Popen[bytes]:
        number = len(self.started)
        ready = self.directory / f"ready-{number}"
        environment = {**self._environment, "DOOMS": json.dumps(dooms), "QUEUES": json.dumps(queues)}
        environment["WORKER_READY"] = str(ready)
        if lease is not None:
            environment["BACKUPSCHED_LEASE"] = str(lease)
        with (self.directory / f"log-{number}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT)], env=environment, stderr=log, start_new_session=True
            )
        self.started.append(process)
        if wait:
            eventually(lambda: ready.exists() or process.poll() is not None)
            assert ready.exists(), self.log(number)
        return process

    def alive(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.started if process.poll() is None]

    def runs(self, what: str = "began") -> Counter[int]:
        """The number of times that a handler began (or "ended"), by record id."""
        lines = self.runs_file.read_text().splitlines() if self.runs_file.exists() else []
        return Counter(int(line.split()[1]) for line in lines if line.startswith(what))

    def log(self, number: int) -> str:
        return (self.directory / f"log-{number}").read_text()

    def kill_all(self) -> None:
        for process in self.alive():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.started:
            process.wait()
