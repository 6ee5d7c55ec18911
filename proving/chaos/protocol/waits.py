"""Events and queues on which a worker's threads wait for their turn instead of time, an event or an item."""

import sys
import threading
from collections import deque
from queue import Empty
from types import SimpleNamespace
from typing import Any

from proving.chaos.protocol.actor import actor_here


def _park(is_ready: Any, timeout: float | None) -> None:
    if (actor := actor_here()) is not None:
        actor.idle(is_ready, None if timeout is None else actor.baton.clocks.boot + timeout)


class SimulatedEvent:
    """A `threading.Event` of the simulation. A wait with a timeout may end at any time, as on a machine under load."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            _park(self.is_set, timeout)
        return self._is_set


class SimulatedQueue:
    """A `queue.SimpleQueue` of the simulation."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()

    def __class_getitem__(cls, _item: object) -> type["SimulatedQueue"]:
        return cls

    def put(self, item: object) -> None:
        self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items and block:
            _park(lambda: bool(self._items), timeout)
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


def install() -> None:
    """Replace both in every module of the worker. They are found by value, not by name, so a rename is harmless."""
    names = {name: getattr(threading, name) for name in dir(threading) if not name.startswith("__")}
    stand_in = SimpleNamespace(**{**names, "Event": SimulatedEvent})
    import queue

    for name, module in list(sys.modules.items()):
        if not name.startswith("jobs.worker."):
            continue
        for key, value in list(vars(module).items()):
            if value is threading:
                setattr(module, key, stand_in)
            elif value is threading.Event:
                setattr(module, key, SimulatedEvent)
            elif value is queue.SimpleQueue or value is queue.Queue:
                setattr(module, key, SimulatedQueue)
