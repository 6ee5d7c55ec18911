"""Hosts for tests, as processes on loopback addresses: they come and go, freeze, sleep, and change their address.

A host is an `rclone serve sftp` with a host key of its own. Those that are switched off: `strangers.black_hole`.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any

from django.conf import settings

from engines.base import SourceSpec
from external.processes.programs import find_rclone
from sources.models import Source
from tests.engines.peers import PASSWORD, USER, answers, free_port, new_host_key
from tests.waiting import PATIENCE, eventually

_numbers = count(1)


def another_address() -> str:
    """A loopback address that no other test and no other call has."""
    number, process = next(_numbers), os.getpid()
    return f"127.{180 + number // 250 % 60}.{process % 250 + 1}.{number % 250 + 1}"


@dataclass
class Host:
    """An SFTP host with one key for all its life, wherever it is. `directory` is what it serves."""

    directory: Path
    address: str = field(default_factory=another_address)
    port: int = 0
    mac_address: str = "02:00:00:aa:bb:cc"
    wake_port: int = 0
    pinned: str = ""
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.key_file = self.directory.parent / f"{self.directory.name}-host-key"
        self.pinned = new_host_key(self.key_file)
        self.port = self.port or free_port(self.address)

    def come(self) -> "Host":
        """Be switched on at its address."""
        self._start(self._serving())
        eventually(lambda: answers(self.address, self.port))
        return self

    def sleep(self) -> "Host":
        """Wait for the magic packet, then be there."""
        self.wake_port = free_port(self.address)
        waiting = ("-m", "demo.sleeper", self.address, str(self.wake_port), self.mac_address, "--")
        message = self.directory.parent / f"{self.directory.name}-said"
        with message.open("wb") as file:
            self._start((sys.executable, *waiting, *self._serving()), file)
        eventually(lambda: b"asleep" in message.read_bytes())  # a look at its port would be in its way
        return self

    def go(self) -> None:
        """Lose its power in the middle of whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None

    def move(self, address: str | None = None) -> "Host":
        """Go, and come back at another address with the same port and key."""
        self.go()
        self.address = address or another_address()
        return self.come()

    def freeze(self) -> None:
        """Stop in mid-air: its system still accepts connections, and no process answers."""
        self._signal(signal.SIGSTOP)
        assert self.process is not None
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # all its threads

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def is_there(self) -> bool:
        return answers(self.address, self.port)

    def source(self, **fields: Any) -> Source:
        """The source that this host is, unsaved."""
        values: dict[str, Any] = {
            "name": self.directory.name,
            "kind": "sftp",
            "address": self.address,
            "port": self.port,
            "path": "/",
            "options": {"user": USER},
            "host_key": self.pinned,
        }
        return Source(**(values | fields))

    def specification(self) -> SourceSpec:
        """The same for an engine."""
        return SourceSpec(
            name=self.directory.name,
            kind="sftp",
            address=self.address,
            port=self.port,
            path="/",
            options={"user": USER},
            secret=PASSWORD,
            host_key=self.pinned,
        )

    def _serving(self) -> tuple[str, ...]:
        return (
            *(find_rclone(), "serve", "sftp", str(self.directory), f"--addr={self.address}:{self.port}"),
            *(f"--user={USER}", f"--pass={PASSWORD}", f"--key={self.key_file}", "--config=", "--dir-cache-time=1ms"),
        )

    def _start(self, command: tuple[str, ...], message: IO[bytes] | int = subprocess.DEVNULL) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory.parent)}
        self.process = subprocess.Popen(
            command,
            env=environment,
            cwd=settings.BASE_DIR,
            stdout=message,
            stderr=subprocess.DEVNULL,
        )

    def _signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)


class Hosts:
    """Makes hosts below a directory, and ends them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: list[Host] = []

    def __call__(self, name: str = "laptop", **fields: Any) -> Host:
        """A host that is not there yet."""
        host = Host(self._directory / f"{name}-{len(self._made)}", **fields)
        self._made.append(host)
        return host

    def end(self) -> None:
        for host in self._made:
            host.go()
