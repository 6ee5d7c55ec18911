"""An absent host at every loopback address: connections to its port are neither accepted nor refused.

A listening socket whose queue is full drops callers, so they run into their timeout, as with a laptop whose lid is
closed. Otherwise nothing listens on 127.x.y.z, and a port without a listener refuses at once.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from proving.bench.processes import ContestantFailed

QUEUE_FILLERS = 4
"""Connections that fill the queue: a backlog of 0 still holds one or two."""
PROBE_SECONDS = 0.4
PER_NETWORK = 200


class NotDeaf(ContestantFailed):
    """This system answers or refuses where it should be silent, so absent sources cannot be simulated here."""


def address(number: int) -> str:
    """The loopback address of the absent source `number` (from 0). None is used twice."""
    return f"127.77.{number // PER_NETWORK}.{number % PER_NETWORK + 1}"


@contextmanager
def deaf_host(last: int) -> Iterator[int]:
    """Yields the port. `last`: number of the last absent source, whose address is tried. Raises: NotDeaf."""
    with ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.socket())
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - every loopback address; none is ever accepted
        listener.listen(0)
        port: int = listener.getsockname()[1]
        for _ in range(QUEUE_FILLERS):
            filler = open_sockets.enter_context(socket.socket())
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(("127.0.0.1", port))
        for number in (0, last):
            check_silent(address(number), port)
        yield port


def check_silent(host: str, port: int) -> None:
    """Raises: NotDeaf unless a connection to it runs into its timeout."""
    try:
        socket.create_connection((host, port), PROBE_SECONDS).close()
    except TimeoutError:
        return
    except OSError as error:
        raise NotDeaf(f"{host}:{port} does not stay silent: {error}") from error
    raise NotDeaf(f"{host}:{port} answers")
