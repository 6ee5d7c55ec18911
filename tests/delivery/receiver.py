"""Real HTTP servers on loopback that receive callbacks, or misbehave as a test wants."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from aiohttp import web

from tests.loop_thread import LoopThread

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]
Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Received(NamedTuple):
    """A request: its header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Receiver:
    """The requests that have arrived, and where."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.port = 0
        self.scheme = "http"
        self.host = "127.0.0.1"
        self.in_flight = self.peak = 0
        self.connections = 0
        self.server: web.Server[Any] | None = None

    @property
    def open(self) -> int:
        """The number of open connections."""
        return len(self.server.connections) if self.server else 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/hook"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


async def accept(request: web.Request) -> web.Response:
    return web.Response(text="thanks")


def answering(status: int, text: str = "", **headers: str) -> Handle:
    """Answers with this status and these headers, whose names have _ for -."""

    async def answer(request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=text, headers=named)

    return answer


def answering_in_turn(statuses: list[int]) -> Handle:
    """Answers with one status after the other."""
    to_come = iter(statuses)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=next(to_come))

    return answer


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a byte at a time, and never to the end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.05)


@contextmanager
def receiving(
    handle: Handle = accept, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> Iterator[Receiver]:
    """An HTTP server that notes each request down and then does what `handle` does."""
    receiver, thread = Receiver(), LoopThread()

    async def note_down(request: web.Request) -> web.StreamResponse:
        receiver.in_flight += 1
        receiver.peak = max(receiver.peak, receiver.in_flight)
        try:
            headers = {name.lower(): value for name, value in request.headers.items()}
            connection = id(request.transport)
            query = request.rel_url.raw_query_string
            path = f"{request.path}?{query}" if query else request.path
            receiver.requests.append(Received(path, headers, await request.content.read(), connection))
            return await handle(request)
        finally:
            receiver.in_flight -= 1

    async def start() -> web.ServerRunner:
        server = web.Server(note_down, access_log=None, handler_cancellation=True)
        receiver.server = server
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        receiver.port = runner.addresses[0][1]
        return runner

    receiver.host, receiver.scheme = host, "https" if tls else "http"
    runner = thread.run(start())
    try:
        yield receiver
    finally:
        thread.end(runner.cleanup)


@contextmanager
def speaking(speak: Speak) -> Iterator[Receiver]:
    """A server that does what `speak` does with each connection, once a request's head has come."""
    receiver, thread = Receiver(), LoopThread()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.connections += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            await speak(reader, writer)
        finally:
            writer.close()

    async def start() -> asyncio.Server:
        return await asyncio.start_server(converse, "127.0.0.1", 0)

    async def stop() -> None:
        server.close()

    server = thread.run(start())
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        thread.end(stop)
