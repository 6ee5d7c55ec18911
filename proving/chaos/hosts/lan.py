"""Hosts as network namespaces on a switch (`switch.py`). Needs root, `ip` and /dev/net/tun; the machine's own network
takes no part.

A namespace's name contains the process id of its storm. A storm that was killed leaves its namespaces behind, and the
next one removes them.
"""

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from proving.chaos.hosts.switch import Switch

PREFIX = "bshosts"
NETWORK = "10.77.0.0/24"
TUN = Path("/dev/net/tun")
NAMESPACES = Path("/run/netns")
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000

Result = TypeVar("Result")


class NoHosts(Exception):
    """This machine cannot have hosts in namespaces; the message gives the reason and a remedy."""


@dataclass(frozen=True)
class LanHost:
    """One host: its namespace and its address."""

    name: str
    namespace: str
    address: str

    def command(self, *argv: str) -> list[str]:
        """`argv`, to be run on this host."""
        return ["ip", "netns", "exec", self.namespace, *argv]

    def do(self, work: Callable[[], Result]) -> Result:
        """Do `work` on this host, with its connections and the processes that it starts. Raises what it raises."""
        done: Future[Result] = Future()

        def run() -> None:
            try:
                with (NAMESPACES / self.namespace).open() as namespace:
                    if _libc().setns(namespace.fileno(), CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns", self.namespace)
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        thread = threading.Thread(target=run, name=f"on {self.name}")
        thread.start()
        thread.join()
        return done.result()


class Lan:
    """Hosts on one switch, from `open` to `close`."""

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self._names, self._seed = names, seed
        self._ends: list[int] = []
        self.hosts: dict[str, LanHost] = {}

    def open(self) -> None:
        """Make the hosts and plug them in. Raises: NoHosts."""
        if why := why_not():
            raise NoHosts(why)
        remove_leftovers()
        ports = {}
        for number, name in enumerate(self._names, start=1):
            host = LanHost(name, f"{PREFIX}-{os.getpid()}-{name}", f"10.77.0.{number}")
            self.hosts[name] = host
            ports[name] = self._plug_in(host, number)
        self.switch = Switch(ports, Random(self._seed))  # noqa: S311 - no secret
        self.switch.start()

    def close(self) -> None:
        """Remove everything that `open` has made."""
        if hasattr(self, "switch"):
            self.switch.end()
        for end in self._ends:
            os.close(end)  # removes its device
        for host in self.hosts.values():
            _remove(host.namespace)

    def _plug_in(self, host: LanHost, number: int) -> tuple[int, bytes]:
        _ip("netns", "add", host.namespace)
        device, hardware = f"bsh{os.getpid() % 10**7}n{number}", bytes((0x02, 0x77, 0, 0, 0, number))
        end = os.open(TUN, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        self._ends.append(end)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TAP | IFF_NO_PI))
        _ip("link", "set", device, "netns", host.namespace, "name", "eth0")
        there = ("-n", host.namespace)
        _ip(*there, "link", "set", "eth0", "address", hardware.hex(":"), "up")
        _ip(*there, "address", "add", f"{host.address}/24", "dev", "eth0")
        _ip(*there, "link", "set", "lo", "up")
        return end, hardware


def why_not() -> str:
    """The reason why this machine cannot have such hosts, or empty if it can."""
    if os.geteuid() != 0:
        return "hosts are network namespaces, which need root: run it with sudo"
    if not shutil.which("ip"):
        return "`ip` is not installed (Debian: apt install iproute2)"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} cannot be opened: the kernel's tun driver makes the hosts' cables"
    refused: list[int] = []
    thread = threading.Thread(target=lambda: refused.append(_libc().unshare(CLONE_NEWNET) and ctypes.get_errno()))
    thread.start()  # changes of a thread's network end with the thread
    thread.join()
    return f"no network namespace can be made here: {os.strerror(refused[0])}" if refused[0] else ""


def remove_leftovers() -> None:
    """Remove the namespaces of storms that do not run any more."""
    for path in NAMESPACES.glob(f"{PREFIX}-*-*"):
        pid = path.name.split("-")[1]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            _remove(path.name)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _remove(namespace: str) -> None:
    with suppress(NoHosts):  # it is not there
        _ip("netns", "delete", namespace)


def _ip(*arguments: str) -> None:
    command = ("ip", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoHosts(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
