"""Starts and ends the separate processes of contestants."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from external.processes.parents import end_with_parent
from proving.bench.contestant import Contestant
from proving.bench.gate import Gate
from proving.bench.tally import Tally

ROOT = Path(__file__).resolve().parents[2]
COMMAND_SECONDS = 300
STOP_SECONDS = 15


class ContestantFailed(Exception):
    """A process of a contestant ended badly; the message has the end of its log."""


class Crew(NamedTuple):
    """Worker processes that wait at the gate."""

    gate: Gate
    tally: Tally
    starts: Path
    processes: list[subprocess.Popen[bytes]]

    def lines(self) -> list[str]:
        """The lines that the handlers wrote."""
        return self.starts.read_text().splitlines() if self.starts.exists() else []


def call(contestant: Contestant, command: str, **options: Any) -> Any:
    """Run one command of a contestant. Returns its result. Raises: ContestantFailed."""
    return call_within(COMMAND_SECONDS, contestant, command, **options)


def call_within(seconds: float, contestant: Contestant, command: str, **options: Any) -> Any:
    """Run one command of a contestant, which may take `seconds`. Returns its result.

    Raises: ContestantFailed.
    """
    with tempfile.TemporaryFile() as log:
        process = _start(contestant, command, options, output=subprocess.PIPE, log=log)
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ContestantFailed(f"{contestant.name}: {command} took over {seconds:g} s") from None
        finally:
            _kill(process)
        if process.returncode != 0:
            raise ContestantFailed(f"{contestant.name}: {command} failed\n{_end_of(log)}")
    return json.loads(output.splitlines()[-1])


@contextmanager
def crew(contestant: Contestant, url: str, workers: int, *, stamp: bool = False) -> Iterator[Crew]:
    """Start `workers` worker processes; yields when all wait at the gate. Stops them at the end.

    Raises: ContestantFailed if one dies.
    """
    with tempfile.TemporaryDirectory(prefix="backlog-bench-crew-") as name, tempfile.TemporaryFile() as log:
        directory = Path(name)
        tally, gate = Tally.create(directory / "tally"), Gate(directory)
        options = {"url": url, "directory": name, "workers": workers, "stamp": stamp}
        commands = 1 if contestant.processes_of_its_own else workers
        processes = [_start(contestant, "work", options, output=log, log=log) for _ in range(commands)]

        def check() -> None:
            if any(process.poll() is not None for process in processes):
                raise ContestantFailed(f"{contestant.name}: a worker has died\n{_end_of(log)}")

        try:
            gate.wait_for(commands, check)
            yield Crew(gate, tally, directory / "starts", processes)
            check()
        finally:
            stop(processes)


@contextmanager
def running(contestant: Contestant, command: str, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a command of a contestant that does not end by itself; yields its process. Stops it at the end.

    Raises: ContestantFailed with the end of its log, if that is raised inside the block.
    """
    with tempfile.TemporaryFile() as log:
        process = _start(contestant, command, options, output=log, log=log)
        try:
            yield process
        except ContestantFailed as error:
            raise ContestantFailed(f"{error}\n{_end_of(log)}") from error
        finally:
            stop([process])


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Send SIGTERM, and after a while SIGKILL to the process groups."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        _kill(process)


def _start(contestant: Contestant, command: str, options: dict[str, Any], *, output: Any, log: Any) -> Any:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "DJANGO_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "proving.bench.child", contestant.name, command, json.dumps(options)],
        cwd=ROOT,
        env={**environment, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=log,
        # a new group, so that its children can be ended with it
        start_new_session=True,
        # before it imports anything, so that a killed bench leaves none behind
        preexec_fn=end_with_parent,
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_of(file: Any) -> str:
    file.seek(0)
    return "\n".join(f"    {line}" for line in file.read().decode(errors="replace").splitlines()[-12:])
