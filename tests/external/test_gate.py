"""The gate through which an rclone passes, at its end."""

import asyncio
import gc
import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from external.network.gate import RESET, _GateServer, _relay
from tests.waiting import PATIENCE

MANY = 1_000_000
"""The most turns of a loop: some thousand are needed."""


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::ResourceWarning")
def test_a_connection_that_comes_as_the_gate_closes_is_closed_too() -> None:
    loop = asyncio.new_event_loop()
    with closing(loop), socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        serving = loop.create_task(_GateServer(frozenset(), 1.0).serve(listening))
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


@pytest.fixture
def passage() -> Iterator["Passage"]:
    with closing(Passage()) as found:
        yield found


class Passage:
    """A connection from a `program` through a gate to a `server`, which does nothing unless it is turned."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.program, self.near = self._pair()
        self.far, self.server = self._pair()
        self.relay = self.loop.create_task(_relay(self.near, self.far))
        self.turn()

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            one, (other, _) = socket.create_connection(listening.getsockname()), listening.accept()
        for each in (one, other):
            each.setblocking(False)
        return one, other

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    def end(self) -> None:
        """Let the gate find that one side has ended, and close both connections."""
        self.loop.run_until_complete(asyncio.wait_for(self.relay, PATIENCE))
        self.near.close()
        self.far.close()
        self.program.settimeout(PATIENCE)

    def close(self) -> None:
        self.relay.cancel()
        with suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.relay)
        for each in (self.program, self.near, self.far, self.server):
            each.close()
        self.loop.close()


def test_no_piece_of_an_answer_waits_until_the_one_before_it_is_confirmed(passage: Passage) -> None:
    """Of small answers, whose header comes first, a third took 44 ms longer."""
    assert all(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in (passage.near, passage.far))


def test_a_program_that_reads_late_gets_all_of_an_answer(passage: Passage) -> None:
    answer, came, idle = os.urandom(32 * 2**20), bytearray(), 0
    left = memoryview(answer)
    for _ in range(MANY):
        passage.turn()
        try:
            left = left[passage.server.send(left[: 2**20]) :] if left else left
        except BlockingIOError:
            idle += 1  # the buffers are full: the gate has more than the program takes
        if idle > 100 or not left:
            with suppress(BlockingIOError):
                came += passage.program.recv(2**16)
        if len(came) >= len(answer):
            break
    assert came == answer
    passage.server.close()
    passage.end()
    assert passage.program.recv(1) == b""


def test_a_connection_that_a_server_breaks_off_is_broken_off_for_the_program(passage: Passage) -> None:
    passage.server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    passage.server.close()
    passage.end()
    with pytest.raises(ConnectionResetError):
        passage.program.recv(1)
