"""Strangers at a port: nothing, a host that never speaks, one that says the wrong thing."""

import contextlib
import socket
import threading
from collections.abc import Iterator

from sources.models import Source
from tests.sources.hosts import another_address
from tests.waiting import PATIENCE


def host_at(address: str, port: int | None, kind: str = "sftp") -> Source:
    return Source(name="laptop", kind=kind, address=address, port=port)


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port at which every loopback address is silent: connections are neither accepted nor refused, as by a laptop
    whose lid is closed.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("0.0.0.0", 0))
        server.listen(0)
        port = int(server.getsockname()[1])
        # nothing accepts: once its queue is full, the system answers nothing any more
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        yield port


@contextlib.contextmanager
def mute_host() -> Iterator[tuple[str, int]]:
    """A host that accepts connections and never says a word, as one that is frozen. Yields address and port."""
    with socket.create_server((another_address(), 0), backlog=100) as server:
        yield server.getsockname()


@contextlib.contextmanager
def talker(*message: bytes, hang_up: bool = False, address: str = "") -> Iterator[tuple[str, int]]:
    """A host that says something to each caller, and waits (or hangs up). Yields address and port."""
    with socket.create_server((address or another_address(), 0)) as server:
        open_ones = []

        def talk() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                for text in message:
                    client.sendall(text)
                if hang_up:
                    client.settimeout(PATIENCE)  # heard out first, else the system would reset the connection
                    with contextlib.suppress(OSError):
                        client.shutdown(socket.SHUT_WR)
                        while client.recv(4096):
                            pass
                    client.close()
                else:
                    open_ones.append(client)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
        for client in open_ones:
            client.close()
