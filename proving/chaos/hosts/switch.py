"""The network between the hosts: a switch in user space that can lose or delay frames.

Each host has one end of a TAP device, the switch has the other. A kernel with netem could do the same between veth
devices; not every kernel has it. Frames without a trouble are passed on at once.
"""

import heapq
import os
import selectors
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from random import Random

from jobs.clock import boot_seconds

LARGEST_FRAME = 65_536
LENGTH_OF_ADDRESS = 6


@dataclass(frozen=True)
class FrameTrouble:
    """A disturbance of frames from one host to another: the share that is lost, and the seconds that the rest takes.
    `concerns`: selects the frames, by default all."""

    loss: float = 0.0
    delay: float = 0.0
    concerns: Callable[[bytes], bool] = lambda _: True


CUT = FrameTrouble(loss=1.0)

FrameTroubles = Mapping[tuple[str, str], FrameTrouble]
"""Sender and receiver → the trouble in this direction."""


class Switch(threading.Thread):
    """Passes frames between `ports` (host → its end of a TAP device, and its hardware address) until `end()`."""

    def __init__(self, ports: Mapping[str, tuple[int, bytes]], luck: Random) -> None:
        super().__init__(name="switch", daemon=True)
        self.troubles: FrameTroubles = {}
        self.lost = 0
        self._ends = {host: end for host, (end, _) in ports.items()}
        self._hosts = {address: host for host, (_, address) in ports.items()}
        self._luck = luck
        self._later: list[tuple[float, int, int, bytes]] = []
        self._numbers = count()
        self._end_heard, self._end_said = os.pipe()

    def end(self) -> None:
        os.write(self._end_said, b".")
        self.join(timeout=10)
        for end in (self._end_said, self._end_heard):
            os.close(end)

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for host, end in self._ends.items():
                selector.register(end, selectors.EVENT_READ, host)
            selector.register(self._end_heard, selectors.EVENT_READ, None)
            while True:
                due_in = max(0.0, self._later[0][0] - boot_seconds()) if self._later else None
                for key, _ in selector.select(due_in):
                    if key.data is None:
                        return
                    self._take(key.data, _frame(key.fd))
                while self._later and self._later[0][0] <= boot_seconds():
                    _, _, end, frame = heapq.heappop(self._later)
                    _send(end, frame)

    def _take(self, sender: str, frame: bytes) -> None:
        receiver = self._hosts.get(frame[:LENGTH_OF_ADDRESS])
        for host in [receiver] if receiver else [host for host in self._ends if host != sender]:
            self._pass_on(sender, host, frame)

    def _pass_on(self, sender: str, receiver: str, frame: bytes) -> None:
        trouble = self.troubles.get((sender, receiver))
        if trouble is None or not trouble.concerns(frame):
            _send(self._ends[receiver], frame)
        elif self._luck.random() < trouble.loss:
            self.lost += 1
        else:
            due = boot_seconds() + trouble.delay
            heapq.heappush(self._later, (due, next(self._numbers), self._ends[receiver], frame))


def _frame(end: int) -> bytes:
    try:
        return os.read(end, LARGEST_FRAME)
    except OSError:  # an interface that is down
        return b""


def _send(end: int, frame: bytes) -> None:
    with suppress(OSError):  # the interface is down, like an unplugged cable
        os.write(end, frame)
