"""The number of sockets that the questions of a worker may hold open at once, bounded by its limit of file descriptors.

A silent host holds one for each of its addresses until its time is over. So hanging questions are counted in sockets,
and a worker continues to ask as long as some are left.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

MOST = 16_384
"""The most sockets, however high the limit is: a question that hangs holds some memory, too."""
RESERVED = 512
"""File descriptors for everything else: connections, programs and their pipes, logs."""


class Sockets:
    """The sockets that this process's questions hold open."""

    def __init__(self) -> None:
        self.open, self.limit = 0, MOST
        self._lock = Lock()

    @property
    def left(self) -> int:
        """The number of sockets that may still be opened."""
        return self.limit - self.open

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one open socket while the block lasts."""
        with self._lock:
            self.open += 1
        try:
            yield
        finally:
            with self._lock:
                self.open -= 1

    def raise_limit(self) -> None:
        """Raise the soft limit of file descriptors as far as they are needed and the hard limit allows."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST + RESERVED
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < allowed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            soft = allowed
        self.limit = MOST if soft == resource.RLIM_INFINITY else min(MOST, max(soft - RESERVED, soft // 2))


sockets = Sockets()
