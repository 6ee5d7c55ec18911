"""HTTP servers that redirect: a WebDAV share, or an S3 bucket, of one file, and the peers that it leads to."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.engines.peers import answering, free_port
from tests.engines.webdav_shares import LISTED, entry

FILE, TEXT = "a.txt", "alpha"
S3 = (
    '<?xml version="1.0"?><ListBucketResult><Name>photos</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>'
    f"<Contents><Key>{FILE}</Key><LastModified>2026-11-21T06:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag>"
    f"<Size>{len(TEXT)}</Size></Contents></ListBucketResult>"
)


class Server:
    """`asked`: method, path and Authorization of each request. `fails`: by which status and body;
    `leads` says by which status where one is redirected."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files = {FILE: TEXT}
        self.asked: list[tuple[str, str, str]] = []
        self.fails: Callable[[str, str], tuple[int, str] | None] = lambda method, path: None
        self.leads: Callable[[str, str], tuple[int, str] | None] = lambda method, path: None


@contextmanager
def server(address: str, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    port = free_port(address)
    peer = Server(f"{'https' if tls else 'http'}://{address}:{port}")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            peer.asked.append((self.command, self.path, self.headers.get("Authorization", "")))
            if found := peer.leads(self.command, self.path):
                self._answer(found[0], "", Location=found[1])
            elif failed := peer.fails(self.command, self.path):
                self._answer(*failed)
            elif self.command == "PROPFIND":
                self._answer(207, self._entries())
            else:
                name = urlsplit(self.path).path.split("/")[-1]
                self._answer(200, S3 if "max-keys" in self.path else peer.files[name])

        do_GET = do_HEAD = do_PROPFIND = do_any

        def _entries(self) -> str:
            files = (entry(name, len(text)) for name, text in peer.files.items())
            return LISTED.format(entry("", None) + "".join(files))

        def _answer(self, status: int, body: str, **headers: str) -> None:
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with answering(Handler, address, port, tls):
        yield peer
