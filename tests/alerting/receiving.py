"""A real SMTP server and a real webhook on loopback, which keep what they get."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.parser import BytesParser
from typing import Any

from aiosmtpd.smtp import SMTP

from tests.loop_thread import LoopThread


class Mailbox:
    """The messages that have arrived, and the port of their server."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"mailto://127.0.0.1:{self.port}?from=backup@example.org&to=op@example.org"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(BytesParser().parsebytes(envelope.content))
        return "250 OK"

    def texts(self) -> list[str]:
        """Subject and text of each mail."""
        return [f"{_header(mail)}\n{_text(mail)}" for mail in self.mails]


def _header(mail: Message) -> str:
    from email.header import decode_header, make_header

    return str(make_header(decode_header(mail["Subject"])))


def _text(mail: Message) -> str:
    part = next(each for each in mail.walk() if each.get_content_type() == "text/plain")
    return bytes(part.get_payload(decode=True)).decode()  # type: ignore[arg-type]


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    mailbox, thread = Mailbox(), LoopThread()

    async def start() -> asyncio.Server:
        factory = lambda: SMTP(mailbox, hostname="localhost", loop=asyncio.get_running_loop())  # noqa: E731
        return await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)

    async def stop() -> None:
        server.close()

    server = thread.run(start())
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        thread.end(stop)
