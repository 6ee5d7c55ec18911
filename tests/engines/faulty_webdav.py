"""A WebDAV share whose requests fail in the middle: rclone's own server, behind one that spoils some of them."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from engines.base import SourceSpec
from tests.engines.peers import PASSWORD, USER, answering, webdav_share

HALF, NOT_ANSWERED, NOT_DONE = "half", "not answered", "not done"
Spoil = Callable[[str, str], str | int | None]
"""A method and a path → what is wrong with the request: `HALF` of its body gets through; it is carried out and
`NOT_ANSWERED`; the connection breaks, and it is `NOT_DONE`; or the status that answers it. None: nothing."""


@contextmanager
def faulty_share(folder: Path, spoil: Spoil) -> Iterator[SourceSpec]:
    """Serve a folder until the block ends."""

    class Between(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            fault = spoil(self.command, self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if fault == NOT_DONE:
                self.close_connection = True
            elif isinstance(fault, int):
                # not XML, of which rclone shows no words
                page = f"<html>{USER}, {PASSWORD}, {self.headers.get('Authorization')}<br>"
                self.answer(fault, [], page.encode())
            else:
                connection = http.client.HTTPConnection(address, port)
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    connection.putheader(name, value)
                connection.endheaders(body[: len(body) // 2] if fault == HALF else body)
                if fault != HALF:
                    given = connection.getresponse()
                    content = given.read()
                connection.close()
                if fault:
                    self.close_connection = True
                else:
                    self.answer(given.status, given.getheaders(), content)

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

        do_PROPFIND = do_GET = do_PUT = do_MOVE = do_MKCOL = do_DELETE = do_OPTIONS = do_HEAD = pass_on

    with webdav_share(folder) as source:
        address, port = source.address.removeprefix("http://").split(":")[0], int(source.address.rpartition(":")[2])
        with answering(Between) as server:
            yield replace(source, address="http://{}:{}".format(*server.server_address))
