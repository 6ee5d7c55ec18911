"""A server that takes new files, and lets none be deleted, replaced or moved: `rclone serve` behind a proxy that
refuses it, as a bucket's policy or the rules of a server do."""

import contextlib
import http.client
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.engines.peers import answering
from tests.engines.served import serving

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade"}
NEVER = ("DELETE", "MOVE", "COPY")
DENIED = 403, b"<Error><Code>AccessDenied</Code><Message>access denied</Message></Error>"


@contextlib.contextmanager
def append_only(
    kind: str,
    directory: Path,
    refused: list[str],
    refusal: Callable[[str, str, Any], tuple[int, bytes] | None] = lambda command, path, headers: None,
) -> Iterator[tuple[dict[str, Any], dict[str, str], str]]:
    """As `serving`, of kind s3 or webdav. `refused` gets each request that was, as `DELETE /vault/x`; `refusal`: the
    answer to whatever else is, of a command, a path and headers."""
    with serving(kind, directory) as (settings, secrets, path):
        option = "endpoint" if kind == "s3" else "url"
        served = urlsplit(settings[option])

        class Proxy(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def relay(self) -> None:
                body, there = self.body(), directory / unquote(urlsplit(self.path).path).strip("/")
                is_batch = self.command == "POST" and "delete" in urlsplit(self.path).query
                is_there = there.is_file()
                refused_as = refusal(self.command, unquote(urlsplit(self.path).path), self.headers)
                if self.command in NEVER or is_batch or (self.command == "PUT" and is_there):
                    refused_as = DENIED
                if refused_as:
                    refused.append(f"{self.command} {self.path}")
                    self.answer(refused_as[0], [], refused_as[1])
                    return
                backend = http.client.HTTPConnection(served.hostname or "", served.port, timeout=60)
                with contextlib.closing(backend):
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
                    backend.request(self.command, self.path, body, headers)
                    found = backend.getresponse()
                    self.answer(found.status, found.getheaders(), found.read())

            def body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    found += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return found

            def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in HOP_BY_HOP:
                        self.send_header(name, value)
                size = dict(headers).get("Content-Length", "") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", size or "0")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        for method in ("GET", "HEAD", "PUT", "POST", "OPTIONS", "PROPFIND", "PROPPATCH", "MKCOL", *NEVER):
            setattr(Proxy, f"do_{method}", Proxy.relay)
        with answering(Proxy) as proxy:
            yield {**settings, option: "http://{}:{}".format(*proxy.server_address)}, secrets, path
