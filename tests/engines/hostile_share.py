"""A WebDAV share that lies: its one file is as large as it likes, and it goes on sending for as long as it is read. Or
its listing has no end.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice

from engines.base import SourceSpec
from tests.engines.peers import free_port, loopback_address, specification

FILE = "holiday.iso"
ENTRY = (
    "<D:response><D:href>{href}</D:href><D:propstat><D:status>HTTP/1.1 200 OK</D:status><D:prop>{props}"
    "<D:getlastmodified>Sat, 21 Nov 2026 06:00:00 GMT</D:getlastmodified></D:prop></D:propstat></D:response>"
)


@contextmanager
def hostile_share(
    size: int,
    chunk: bytes = b"",
    pause: float = 0.0,
    refusal: str = "",
    endless: bool = False,
    encoding: str = "",
    words: str = "",
) -> Iterator[SourceSpec]:
    """Serve `FILE` of `size` bytes, `chunk` after `chunk` with a `pause` (seconds) between them; or refuse it so.

    `endless`: list it again and again, each time by another long name. `words`: of a page that says why it is refused.
    """
    ended = threading.Event()

    class Share(BaseHTTPRequestHandler):
        def do_PROPFIND(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            file = ENTRY.format(href=f"/{FILE}", props=f"<D:getcontentlength>{size}</D:getcontentlength>")
            folder = ENTRY.format(href="/", props="<D:resourcetype><D:collection/></D:resourcetype>")
            entries = file if self.path.endswith(FILE) else folder + file
            answer = f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{entries}</D:multistatus>'.encode()
            self.send_response(207)
            self.send_header("Content-Type", "application/xml")
            if endless:
                self.end_headers()
                self._list_without_end(answer.removesuffix(b"</D:multistatus>"), file)
            else:
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def _list_without_end(self, answer: bytes, file: str) -> None:
            names = (file.replace(FILE, f"{number:0200}") for number in count())
            with suppress(OSError):
                while not ended.is_set():
                    self.wfile.write(answer)
                    answer = "".join(islice(names, 1000)).encode()
            self.close_connection = True

        def do_GET(self) -> None:
            self.send_response(500 if refusal else 200, refusal or None)
            if encoding:
                self.send_header("Content-Encoding", encoding)
            else:
                self.send_header("Content-Length", str(len(words) if refusal else size))
            self.end_headers()
            self.wfile.write(words.encode())
            try:
                while not refusal and not ended.wait(pause):
                    self.wfile.write(chunk)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    address = loopback_address()
    with ThreadingHTTPServer((address, free_port(address)), Share) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield specification("webdav", f"http://{address}:{server.server_port}", path="", secret=None)
        finally:
            ended.set()
            server.shutdown()
