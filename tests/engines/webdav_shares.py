"""WebDAV shares that do not give what they have: one lies and has no end, another refuses single files, or hides them
for a while."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from itertools import count, islice
from urllib.parse import unquote

from engines.base import SourceSpec
from tests.engines.peers import answering, specification

FILE = "holiday.iso"
AWAY = 503
ENTRY = (
    "<D:response><D:href>{href}</D:href><D:propstat><D:status>HTTP/1.1 {status}</D:status><D:prop>{props}"
    "<D:getlastmodified>Tue, 14 Nov 2023 22:13:20 GMT</D:getlastmodified></D:prop></D:propstat></D:response>"
)
LISTED = '<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{}</D:multistatus>'
END = "</D:multistatus>"


class Handler(BaseHTTPRequestHandler):
    """Answers whole, and logs nothing."""

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/xml")
        self.end_headers()
        self.wfile.write(body)

    def drain(self) -> None:
        """Read what the client has sent."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, *_: object) -> None:
        pass


def entry(path: str, size: int | None, status: int = 200) -> str:
    """`size`: None: a folder."""
    is_folder = size is None
    kind = "<D:resourcetype><D:collection/></D:resourcetype>"
    props = kind if is_folder else f"<D:getcontentlength>{size}</D:getcontentlength>"
    return ENTRY.format(href=f"/{path}{'/' if is_folder and path else ''}", status=f"{status} x", props=props)


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

    class Hostile(Handler):
        def do_PROPFIND(self) -> None:
            self.drain()
            file = entry(FILE, size)
            answer = LISTED.format(file if self.path.endswith(FILE) else entry("", None) + file)
            if endless:
                self.send_response(207)
                self.send_header("Content-Type", "application/xml")
                self.end_headers()
                self._list_without_end(answer.removesuffix(END).encode(), file)
            else:
                self.answer(207, answer.encode())

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

    with _served(Hostile) as source:
        try:
            yield source
        finally:
            ended.set()


class Share:
    """A share of `files` (path → content). `hidden`: path → status that its entry has within a listing and for its
    name; `refused`: path → status for who fetches it; `unlisted`: folder → status for who lists it. `away`: folder →
    how often it does not answer, and neither does what is below it, once it was listed. `endless`: paths of files that
    are sent again and again without an end. `silent`: paths of files whose content never comes; the share says nothing
    at all after the first of them if it `dies`."""

    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.hidden: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.unlisted: dict[str, int] = {}
        self.away: dict[str, int] = {}
        self.listed = set[str]()
        self.endless, self.silent = set[str](), set[str]()
        self.dies = self.is_dead = False

    @contextmanager
    def served(self) -> Iterator[SourceSpec]:
        share, ended = self, threading.Event()

        class Limited(Handler):
            def do_PROPFIND(self) -> None:
                self.drain()
                if share.is_dead:
                    ended.wait()
                path = unquote(self.path).strip("/")
                status = share.unlisted.get(path) or share.hidden.get(path) or share.silence(path)
                self.answer(status) if status else self.answer(*share.found(path, self.headers.get("Depth") != "0"))

            def do_GET(self) -> None:
                path = unquote(self.path).strip("/")
                status = share.refused.get(path) or share.hidden.get(path) or share.silence(path)
                content = share.files.get(path)
                if share.is_dead or (path in share.silent and content):
                    share.is_dead = share.dies
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(content or b"")))
                    self.end_headers()
                    ended.wait()
                    self.close_connection = True
                elif path in share.endless and content and not status:
                    self._send_without_end(content)
                else:
                    self.answer(status or (404 if content is None else 200), b"" if status else content or b"")

            def _send_without_end(self, content: bytes) -> None:
                self.send_response(200)  # and no length
                self.end_headers()
                with suppress(OSError):
                    while True:
                        self.wfile.write(content)

        with _served(Limited) as source:
            try:
                yield source
            finally:
                ended.set()

    def silence(self, path: str) -> int:
        """The status for who asks for something in a folder that is away; 0: it is not."""
        folder = next((each for each in self.away if f"{path}/".startswith(f"{each}/")), None)
        if folder is None or folder not in self.listed:
            self.listed.add(path)
            return 0
        self.away[folder] -= 1
        return AWAY if self.away[folder] >= 0 else 0

    def found(self, path: str, is_deep: bool) -> tuple[int, bytes]:
        """Status and answer for who asks for a file or folder."""
        if path in self.files:
            return 207, LISTED.format(entry(path, len(self.files[path]))).encode()
        below = {each for each in self.files if not path or each.startswith(f"{path}/")}
        if not below:
            return 404, b""
        start = len(path) + 1 if path else 0
        names = sorted({each[start:].partition("/")[0] for each in below}) if is_deep else []
        paths = [f"{path}/{name}".strip("/") for name in names]
        sizes = {each: len(content) for each, content in self.files.items()}
        rows = [entry(each, sizes.get(each), self.hidden.get(each, 200)) for each in paths]
        return 207, LISTED.format("".join([entry(path, None), *rows])).encode()


@contextmanager
def _served(handler: type[Handler]) -> Iterator[SourceSpec]:
    with answering(handler) as server:
        yield specification("webdav", "http://{}:{}".format(*server.server_address), path="", secret=None)
