"""An HTTP server on loopback that counts what it is answering at each moment, and workers that deliver to it.

A request counts from its last byte until its answer is written, or until its peer is gone: who is killed closes all
its connections at that moment.
"""

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.jobs.worker_processes import Programs
from tests.loop_thread import LoopThread

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"


class CountingReceiver:
    """`answers_after`: seconds that each answer takes; none is given while it is `held`.

    Its numbers may be read from any thread.
    """

    def __init__(self, answers_after: float) -> None:
        self.answers_after, self.held = answers_after, False
        self.in_flight = self.peak = self.broken_off = 0
        self.begun_at: list[float] = []
        """The instant of each request, in seconds of the monotonic clock."""
        self.answered: Counter[str] = Counter()
        """The number of answers to each event, by its id."""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of one connection."""
        try:
            while await self._answer_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # its peer has ended it
        finally:
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        event_id = await self._request(reader)
        self._begin()
        try:
            gone = await self._is_gone_before_the_answer(reader)
        finally:
            self.in_flight -= 1
        if gone:
            self.broken_off += 1
        else:
            self.answered[event_id] += 1
            writer.write(ANSWER)
        return not gone

    async def _request(self, reader: asyncio.StreamReader) -> str:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        [length] = [line.split(":")[1] for line in head.splitlines() if line.startswith("content-length:")]
        body = json.loads(await reader.readexactly(int(length)))
        return str(body["event_id"])

    def _begin(self) -> None:
        self.begun_at.append(time.monotonic())
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    async def _is_gone_before_the_answer(self, reader: asyncio.StreamReader) -> bool:
        """A peer that waits sends nothing, so whatever is read is its end."""
        end = asyncio.ensure_future(reader.read(1))
        done, _ = await asyncio.wait([end], timeout=self.answers_after)
        while self.held and not done:
            done, _ = await asyncio.wait([end], timeout=0.02)
        end.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await end
        return bool(done)


@contextmanager
def counting_receiver(answers_after: float, host: str = "127.0.0.17") -> Iterator[CountingReceiver]:
    """One that listens until the end of the block, in a thread of its own."""
    receiver, thread = CountingReceiver(answers_after), LoopThread()

    async def stop() -> None:
        server.close()

    server = thread.run(asyncio.start_server(receiver.serve, host, 0))
    receiver.url = f"http://{host}:{server.sockets[0].getsockname()[1]}/events"
    try:
        yield receiver
    finally:
        thread.end(stop)


def start_delivering(programs: Programs) -> "subprocess.Popen[bytes]":
    """A worker of `manage.py worker` for the queue of deliveries."""
    environment = {"BACKUPSCHED_LEASE": "8", "BACKUPSCHED_CALLBACKS_ALLOWED": "127.0.0.0/8"}
    return programs.run("manage.py", "worker", "--queues", "callbacks", **environment)
