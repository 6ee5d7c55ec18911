"""The gate through which an rclone passes, at its end."""

import asyncio
import gc
import socket
from contextlib import closing, suppress

import pytest

from external.network.gate import _Gate
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
