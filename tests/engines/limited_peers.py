"""Servers that do not give all of their files: they refuse single ones, hide them for a while, or have limits."""

import threading
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import asyncssh
from asyncssh.sftp import SFTPAttrs, SFTPFailure, SFTPName, SFTPServer

from engines.base import SourceSpec
from tests.engines.peers import PASSWORD, USER, free_port, loopback_address, specification
from tests.loop_thread import LoopThread

AT = 1_700_000_000
PROPS = "<D:getlastmodified>Tue, 14 Nov 2023 22:13:20 GMT</D:getlastmodified>"


@contextmanager
def sftp_with_limits(
    files: Mapping[str, bytes], *, refused: Collection[str] = (), one_at_a_time: bool = False
) -> Iterator[SourceSpec]:
    """A flat folder. `refused`: names that cannot be opened (SSH_FX_FAILURE), as what another program has locked;
    `one_at_a_time`: a second file is not opened while one is."""
    opened: list[str] = []

    def facts(size: int, mode: int) -> SFTPAttrs:
        return SFTPAttrs(size=size, permissions=mode, uid=0, gid=0, atime=AT, mtime=AT, nlink=1)

    class Files(SFTPServer):
        async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
            for name, content in files.items():
                yield SFTPName(name.encode(), b"x", facts(len(content), 0o100644))

        def stat(self, path: bytes) -> SFTPAttrs:
            name = path.decode().strip("/")
            return facts(len(files[name]), 0o100644) if name in files else facts(0, 0o40755)

        lstat = stat

        def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> str:
            name = path.decode().strip("/")
            if name in refused or (one_at_a_time and opened):
                raise SFTPFailure("Failure")
            opened.append(name)
            return name

        async def read(self, file_obj: object, offset: int, size: int) -> bytes:
            return files[str(file_obj)][offset : offset + size]

        def fstat(self, file_obj: object) -> SFTPAttrs:
            return facts(len(files[str(file_obj)]), 0o100644)

        def close(self, file_obj: object) -> None:
            opened.remove(str(file_obj))

        def realpath(self, path: bytes) -> bytes:
            return path

    class Host(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return username != USER

    key, thread = asyncssh.generate_private_key("ssh-ed25519"), LoopThread()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            loopback_address(), 0, server_factory=Host, server_host_keys=[key], sftp_factory=Files, config=None
        )

    server = thread.run(listen())

    async def close() -> None:
        server.close()
        await server.wait_closed()

    try:
        pinned = key.export_public_key().decode()
        options = {"user": USER}
        yield specification(
            "sftp", loopback_address(), port=server.get_port(), options=options, secret=PASSWORD, host_key=pinned
        )
    finally:
        thread.end(close)


class Share:
    """A WebDAV share of `files` (path → content). `hidden`: path → status that its entry has within a listing and for
    its name; `refused`: path → status for who fetches it; `unlisted`: folder → status for who lists it."""

    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.hidden: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.unlisted: dict[str, int] = {}

    @contextmanager
    def served(self) -> Iterator[SourceSpec]:
        share = self

        class Handler(BaseHTTPRequestHandler):
            def do_PROPFIND(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path = unquote(self.path).strip("/")
                if status := share.unlisted.get(path) or share.hidden.get(path):
                    self.answer(status)
                elif path in share.files:
                    self.answer(207, listed([entry(path, share.files[path])]))
                elif below := {each for each in share.files if not path or each.startswith(f"{path}/")}:
                    start = len(path) + 1 if path else 0
                    names = sorted({each[start:].partition("/")[0] for each in below})
                    rows = [entry(path, None)]
                    if self.headers.get("Depth") != "0":
                        rows += [
                            entry(each, share.files.get(each), share.hidden.get(each, 200))
                            for each in (f"{path}/{name}".strip("/") for name in names)
                        ]
                    self.answer(207, listed(rows))
                else:
                    self.answer(404)

            def do_GET(self) -> None:
                path = unquote(self.path).strip("/")
                if status := share.refused.get(path) or share.hidden.get(path):
                    self.answer(status)
                else:
                    self.answer(200 if path in share.files else 404, share.files.get(path, b""))

            def answer(self, status: int, body: bytes = b"") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", "application/xml")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        address = loopback_address()
        with ThreadingHTTPServer((address, free_port(address)), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield specification("webdav", f"http://{address}:{server.server_port}", path="", secret=None)
            finally:
                server.shutdown()


def entry(path: str, content: bytes | None, status: int = 200) -> str:
    kind = "<D:resourcetype><D:collection/></D:resourcetype>" if content is None else ""
    size = "" if content is None else f"<D:getcontentlength>{len(content)}</D:getcontentlength>"
    href = f"/{path}{'/' if content is None and path else ''}"
    return (
        f"<D:response><D:href>{href}</D:href><D:propstat><D:status>HTTP/1.1 {status} x</D:status>"
        f"<D:prop>{kind}{size}{PROPS}</D:prop></D:propstat></D:response>"
    )


def listed(rows: list[str]) -> bytes:
    return f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{"".join(rows)}</D:multistatus>'.encode()
