"""How many sockets the questions of a worker may hold open at once: as its limit of file descriptors allows.

A host that is silent holds one for each of its addresses until its time is over. So what hangs is counted in sockets,
and a worker goes on asking while there are some left.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

MOST = 16_384
"""However high the limit is: a question that hangs holds some memory, too."""
RESERVED = 512
"""File descriptors for everything else: connections, programs and their pipes, logs."""


class Sockets:
    """Those that questions of this process hold open."""

    def __init__(self) -> None:
        self.open, self.limit = 0, MOST
        self._lock = Lock()

    @property
    def left(self) -> int:
        """How many more may be opened."""
        return self.limit - self.open

    @contextmanager
    def one(self) -> Iterator[None]:
        """While one is open."""
        with self._lock:
            self.open += 1
        try:
            yield
        finally:
            with self._lock:
                self.open -= 1

    def raise_limit(self) -> None:
        """Raise the soft limit of file descriptors as far as they are needed and the hard one lets us."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST + RESERVED
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < allowed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            soft = allowed
        self.limit = MOST if soft == resource.RLIM_INFINITY else min(MOST, max(soft - RESERVED, soft // 2))


sockets = Sockets()
