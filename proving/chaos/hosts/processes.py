"""Web, qcluster, agent and PgBouncer: each is a process of its host, ended by its id."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from proving.chaos.fleet import ROOT, die_with_parent
from proving.chaos.hosts.lan import LanHost

END_SECONDS = 15.0


class HostProcesses:
    """Processes by name, with their logs in `directory`. `environment` is for all that start from now on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, host: LanHost, *argv: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                host.command(*argv),
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that it can be ended together with its children
                preexec_fn=die_with_parent,
            )

    def python(self, name: str, host: LanHost, *arguments: str) -> None:
        """Start a Python program."""
        self.start(name, host, sys.executable, *arguments)

    def died(self) -> list[str]:
        """The names of processes that ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End one process and its children."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end_all(self) -> None:
        for name in list(self._running):
            self.end(name)
