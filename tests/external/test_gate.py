"""The gate through which an rclone passes, at its end."""

import asyncio
import gc
import socket
from contextlib import closing, suppress

import pytest

from external.network.gate import _Gate, _relay
from tests.waiting import PATIENCE


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::ResourceWarning")
def test_a_connection_that_comes_as_the_gate_closes_is_closed_too() -> None:
    loop = asyncio.new_event_loop()
    with closing(loop), socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        serving = loop.create_task(_Gate(frozenset(), 1.0).serve(listening))
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(0))
        with socket.create_connection(listening.getsockname()) as program:
            loop.call_soon(serving.cancel)
            loop.run_until_complete(serving)
            gc.collect()
            listening.close()
            program.settimeout(PATIENCE)
            with suppress(ConnectionError):
                assert program.recv(1) == b""


def test_no_piece_of_an_answer_waits_until_the_one_before_it_is_confirmed() -> None:
    """Of small answers, whose header comes first, a third took 44 ms longer."""
    loop = asyncio.new_event_loop()
    with (
        closing(loop),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as far,
        server.accept()[0] as near,
    ):
        near.setblocking(False)
        far.setblocking(False)
        passing = loop.create_task(_relay(near, far))
        loop.run_until_complete(asyncio.sleep(0))
        assert all(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in (near, far))
        passing.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(passing)
