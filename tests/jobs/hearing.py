"""A worker's listener at work."""

from collections.abc import Iterator, Set
from contextlib import contextmanager

from jobs import wakeups
from jobs.worker.hints import Hints
from jobs.worker.listener import Listener
from tests.jobs.held import Held
from tests.waiting import PATIENCE


@contextmanager
def hearing(queues: Set[str], hints: Hints, held: Held) -> Iterator[None]:
    """It hears of these queues until the end of the block, where a notice ends it: of itself it looks up once a
    second."""
    listener = Listener(queues, hints, held)
    listener.start()
    try:
        yield
    finally:
        listener._ended.set()
        wakeups.notify_at_once("whatever")
        listener.end()
        listener.join(PATIENCE)
        assert not listener.is_alive()
