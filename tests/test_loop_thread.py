"""A server of a test leaves no connection behind, whatever its client does: a warning would fail some other test."""

import gc
import socket
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.delivery.certificates import make_certificate, served_with
from tests.delivery.receiver import Receiver, receiving, speaking
from tests.jobs.throttling.counting_receiver import counting_receiver
from tests.waiting import eventually

MUCH = b"x" * 10_000_000
"""More than the buffers of both ends take."""
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer_much(request: web.Request) -> web.Response:
    return web.Response(body=MUCH)


async def say_much(reader: Any, writer: Any) -> None:
    writer.write(MUCH)


def left_by(server: AbstractContextManager[Any], meet: Callable[[Any], socket.socket]) -> list[str]:
    """What is told of as not closed after a client has met the server, and outlived it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with server as receiver:
            client = meet(receiver)
        gc.collect()
    client.close()
    return [str(warning.message) for warning in told if warning.category is ResourceWarning]


def connect(receiver: Receiver) -> socket.socket:
    return socket.create_connection((receiver.host, receiver.port))


def ask_and_not_read(receiver: Receiver) -> socket.socket:
    client = connect(receiver)
    client.sendall(REQUEST)
    client.recv(1)
    return client


@pytest.mark.parametrize("meet", [connect, ask_and_not_read])
@pytest.mark.parametrize("server", [lambda: receiving(answer_much), lambda: speaking(say_much)])
def test_a_client_that_connects_or_reads_no_more(server, meet):
    assert left_by(server(), meet) == []


def test_a_client_in_the_midst_of_its_handshake(tmp_path: Path):
    tls = served_with(make_certificate(tmp_path, "127.0.0.1"))
    assert left_by(receiving(tls=tls), connect) == []


def test_a_client_whose_answer_is_to_come():
    def ask(receiver: Any) -> socket.socket:
        host, port = receiver.url.split("/")[2].split(":")
        client = socket.create_connection((host, int(port)))
        client.sendall(b'POST /events HTTP/1.1\r\nContent-Length: 16\r\n\r\n{"event_id":"1"}')
        eventually(lambda: receiver.in_flight == 1)
        return client

    assert left_by(counting_receiver(answers_after=60), ask) == []
