"""The runs as they happened: one file per worker, one line per beginning and end, independent of the database.

Lines are JSON arrays, each one write to a file opened for appending, so that a SIGKILL cuts none in two. Instants are
boot seconds, which all processes of a machine share.

    ["began", at, record id, attempt, worker id, kind, queue, exclusive key or null, [throttle ids]]
    ["ended", at, record id, attempt, name of the outcome]
    ["pulse", at]
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

from jobs.clock import boot_seconds
from jobs.handlers import Run
from proving.chaos.facts import Execution, Journal

PULSE_SECONDS = 0.2
"""A gap between two pulses is a standstill: a SIGSTOP, or a machine that had no time for the process."""


class JournalFile:
    """The journal file that this process writes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def began(self, run: Run) -> None:
        record = run.record
        self._write(
            "began",
            record.id,
            record.attempt,
            record.worker_id,
            record.kind,
            record.queue,
            record.exclusive_key,
            record.payload.get("throttles", []),
        )

    def ended(self, run: Run, outcome: str) -> None:
        self._write("ended", run.record.id, run.record.attempt, outcome)

    def start_pulse(self) -> None:
        """Write a pulse now and every PULSE_SECONDS, in a thread, for as long as this process runs.

        The first one is written before any claim: a worker that is stopped between its first claim and its first
        handler has stood still, which only the pulse shows.
        """
        self._write("pulse")
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    def _beat(self) -> None:
        resting = threading.Event()
        while not resting.wait(PULSE_SECONDS):
            self._write("pulse")

    def _write(self, what: str, *facts: Any) -> None:
        os.write(self._file, f"{json.dumps([what, boot_seconds(), *facts])}\n".encode())


def read(path: Path, pid: int) -> Journal:
    """The journal of the worker process `pid`. A run that never ended has no `ended`."""
    executions: dict[tuple[int, int], list[Execution]] = {}
    pulses: list[float] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        what, at, *facts = json.loads(line)
        pulses.append(at)
        if what == "began":
            record_id, attempt, worker_id, kind, queue, key, throttles = facts
            execution = Execution(record_id, attempt, worker_id, pid, kind, queue, key, tuple(throttles), at)
            executions.setdefault((record_id, attempt), []).append(execution)
        elif what == "ended":
            record_id, attempt, outcome = facts
            open_ones = [found for found in executions[record_id, attempt] if found.ended is None]
            open_ones[0].ended, open_ones[0].outcome = at, outcome
    return Journal(pid, [execution for several in executions.values() for execution in several], pulses)
