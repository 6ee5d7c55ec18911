"""An HTTP server that takes events and counts them: `python -m proving.bench.fleets.receiver FILE`.

It writes its port to FILE.

It does the least that a server can do, on asyncio's transports, so that it does not dominate the measurement: it
searches a request's head for three headers, and answers every POST with 200 at once. `GET /counts` returns the counts
since the previous one, as JSON. It ends with the process that started it.
"""

import asyncio
import json
import re
import sys
from pathlib import Path

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
EVENT = re.compile(rb"\r\nidempotency-key: *([^\r]+)", re.IGNORECASE)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
BACKLOG = 1024


class ReceivedCounts:
    """Counts of requests, of their events' ids, and of the connections that they came by."""

    def __init__(self) -> None:
        self.requests = 0
        self.signed = 0
        self.events: set[bytes] = set()
        self.connections = 0

    def facts(self) -> bytes:
        """The counts as JSON, after which all begin again at 0."""
        counts = {
            "requests": self.requests,
            "signed": self.signed,
            "events": len(self.events),
            "connections": self.connections,
        }
        self.__init__()  # type: ignore[misc]
        return json.dumps(counts).encode()


class ReceiverProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, counts: ReceivedCounts) -> None:
        self._counts = counts
        self._heard = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of TCP it is
        self._transport = transport
        self._is_new = True

    def data_received(self, data: bytes) -> None:
        self._heard = self._heard + data if self._heard else data
        while (end := self._heard.find(b"\r\n\r\n")) >= 0:
            head, found = self._heard[:end], LENGTH.search(self._heard, 0, end)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._heard) < whole:
                return
            self._heard = self._heard[whole:]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        counts = self._counts
        if head.startswith(b"GET "):
            body = counts.facts()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            return
        counts.requests += 1
        counts.connections += self._is_new
        self._is_new = False
        counts.signed += b"webhook-signature" in head.lower()
        if event := EVENT.search(head):
            counts.events.add(event[1])
        self._transport.write(OK)


async def serve(port_file: Path) -> None:
    """Serve until the process ends."""
    counts = ReceivedCounts()
    server = await asyncio.get_running_loop().create_server(
        lambda: ReceiverProtocol(counts), "127.0.0.1", 0, backlog=BACKLOG
    )
    written = port_file.with_suffix(".new")
    written.write_text(str(server.sockets[0].getsockname()[1]))
    written.rename(port_file)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
