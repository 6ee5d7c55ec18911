"""An IMAP server without manners: it holds some messages, and does what a test tells it to instead of its duty."""

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engines.base import SourceSpec
from tests.engines.peers import listening, specification

TAG = b"TAG"
"""The tag of the command, in the answer of a fault."""


class HangUp(Exception):
    pass


@dataclass
class Hostile:
    """`fault` gets each command, as `UID FETCH 1 (UID)`, and returns what is answered; None: the usual."""

    messages: dict[int, bytes]
    folders: list[bytes] = field(default_factory=lambda: [b'(\\HasNoChildren) "/" "INBOX"'])
    validity: int = 7
    greeting: bytes = b"* OK hello\r\n"
    fault: Callable[[str], bytes | None] = field(default=lambda command: None)
    commands: list[str] = field(default_factory=list)
    address: str = ""
    port: int = 0

    def source(self, **options: str) -> SourceSpec:
        return specification(
            "imap", self.address, port=self.port, path="", options={"user": "ann", "tls": "none"} | options
        )

    def serve(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines, contextlib.suppress(OSError, HangUp):
            connection.sendall(self.greeting)
            for line in lines:
                tag, _, command = line.rstrip(b"\r\n").partition(b" ")
                self.commands.append(text := command.decode("latin-1"))
                faulty = self.fault(text)
                if faulty is None and text.startswith("AUTHENTICATE"):
                    connection.sendall(b"+ \r\n")
                    self.commands.append(next(lines).rstrip().decode())
                answer = self.answer(text) + TAG + b" OK done\r\n" if faulty is None else faulty
                connection.sendall(re.sub(rb"^TAG\b", tag, answer, flags=re.MULTILINE))
                if faulty is not None and TAG not in faulty:
                    raise HangUp

    def answer(self, command: str) -> bytes:
        if command.startswith("LIST"):
            return b"".join(b"* LIST " + each + b"\r\n" for each in self.folders)
        if command.startswith("EXAMINE"):
            return f"* {len(self.messages)} EXISTS\r\n* OK [UIDVALIDITY {self.validity}] here\r\n".encode()
        if command.startswith("FETCH"):
            return b"".join(b"* %d FETCH (UID %d FLAGS (\\Seen))\r\n" % pair for pair in enumerate(self.messages, 1))
        if match := re.fullmatch(r"UID FETCH ([\d,]+) \((.*)\)", command):
            uids = [uid for uid in map(int, match[1].split(",")) if uid in self.messages]
            return b"".join(self.fetched(uid, match[2]) for uid in uids)
        return b"* CAPABILITY IMAP4rev1\r\n" if command == "CAPABILITY" else b""

    def fetched(self, uid: int, items: str) -> bytes:
        text = self.messages[uid]
        if "SIZE" in items:
            dated = b'INTERNALDATE "03-Feb-2020 04:05:06 +0000"'
            return b"* 1 FETCH (UID %d RFC822.SIZE %d %s)\r\n" % (uid, len(text), dated)
        if part := re.search(r"<(\d+)\.(\d+)>", items):
            text = text[int(part[1]) :][: int(part[2])]
            return b"* 1 FETCH (UID %d BODY[]<%s> {%d}\r\n%s)\r\n" % (uid, part[1].encode(), len(text), text)
        return b"* 1 FETCH (UID %d)\r\n" % uid


@contextlib.contextmanager
def hostile_mailbox(**facts: object) -> Iterator[Hostile]:
    server = Hostile(**facts)  # type: ignore[arg-type]
    with listening(server.serve) as (server.address, server.port):
        yield server
