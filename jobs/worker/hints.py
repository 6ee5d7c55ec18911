"""The times of a worker's looks, and the queues that are worth a claim: it queries only where it may find something."""

from collections.abc import Callable, Collection
from queue import Empty, SimpleQueue

from jobs.clock import boot_seconds
from jobs.wakeups import QUIET_SECONDS

LOOK_AGAIN_AFTER_SECONDS = QUIET_SECONDS + 0.001
"""The time after a wake-up in which its sender sends no other: the worker looks again afterwards."""


class Bell:
    """Wakes the main loop, from any thread and from a signal handler.

    Not a `threading.Event`: its lock is not reentrant, and a signal may arrive while the main thread holds it.
    """

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        self._rings.put(None)

    def wait(self, timeout: float) -> bool:
        """Sleep until rung, or for `timeout` seconds. Returns whether it was rung; earlier rings count."""
        try:
            self._rings.get(timeout=timeout)
        except Empty:
            return False
        while not self._rings.empty():
            self._rings.get()
        return True


class Hints:
    """Hints from any thread that hears of ready records or of room, for the main loop. A lost hint costs a poll.

    `ring` wakes the main loop. `quiet`: seconds for which a sender sends nothing more, although there may be more; 0
    for a sender in this process, which never falls silent.
    """

    def __init__(self, ring: Callable[[], None] = lambda: None) -> None:
        self._ring = ring
        self._worth: set[str] = set()
        self._again_at: dict[str, float] = {}
        self._blocking: dict[str, frozenset[int]] = {}
        self._room_until: dict[int, float] = {}

    def hear(self, queue: str, quiet: float = LOOK_AGAIN_AFTER_SECONDS) -> None:
        """`queue` has ready records."""
        self._worth.add(queue)
        if quiet:
            self._again_at[queue] = boot_seconds() + quiet
        self._ring()

    def hear_of_room(self, throttle_ids: Collection[int], quiet: float = LOOK_AGAIN_AFTER_SECONDS) -> bool:
        """These throttles have room again. Returns whether a queue waits for it."""
        self._room_until.update(dict.fromkeys(throttle_ids, boot_seconds() + quiet))
        waiting = [queue for queue, ids in list(self._blocking.items()) if not ids.isdisjoint(throttle_ids)]
        for queue in waiting:
            self.add(queue)
            if quiet:
                self.again(queue, quiet)
        if waiting:
            self._ring()
        return bool(waiting)

    def blocked(self, queue: str, throttle_ids: frozenset[int], since: float) -> None:
        """Note that a claim of `queue`, sent at `since` (boot seconds), took fewer records than it asked for. Its ready
        records name these throttles: one may be full, and when it has room, the queue is claimed from again.
        """
        self._blocking[queue] = throttle_ids
        until = max((self._room_until.get(each, 0.0) for each in throttle_ids), default=0.0)
        if until >= since:  # heard of while this claim was under way, or when nothing waited for it
            self.again(queue, until - since)

    def add(self, queue: str) -> None:
        """`queue` had ready records a moment ago."""
        self._worth.add(queue)

    def again(self, queue: str, seconds: float) -> None:
        """Make `queue` worth a claim in that many seconds, unless it is worth one sooner."""
        at = boot_seconds() + seconds
        self._again_at[queue] = min(at, self._again_at.get(queue, at))

    def take(self, queue: str) -> bool:
        """True if `queue` is worth a claim now. Later hints count for the next time."""
        self._is_any_due([queue])
        if queue not in self._worth:
            return False
        self._worth.discard(queue)
        return True

    def seconds_until_next(self) -> float:
        """Seconds until a queue becomes worth a claim by itself; infinity if none does.

        0 once: a queue whose time has come and that has no room for a claim must not keep the worker awake.
        """
        if self._is_any_due(list(self._again_at)):
            return 0.0
        now = boot_seconds()
        return max(0.0, min((at - now for at in list(self._again_at.values())), default=float("inf")))

    def _is_any_due(self, queues: list[str]) -> bool:
        """True if the time of one of them has come: they are worth a claim then."""
        now = boot_seconds()
        due = [queue for queue in queues if self._again_at.get(queue, float("inf")) <= now]
        for queue in due:
            del self._again_at[queue]
            self._worth.add(queue)
        return bool(due)
