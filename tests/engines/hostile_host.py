"""An SFTP host that lists what it likes: its files are there under any name that a client asks for."""

import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager

import asyncssh
from asyncssh.sftp import SFTPAttrs, SFTPName, SFTPServer

from engines.base import SourceSpec
from tests.engines.peers import PASSWORD, USER, loopback_address, specification
from tests.loop_thread import LoopThread

TEXT = b"from the host"
DIRECTORY, FILE, LINK = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777

Listing = Callable[[bytes], Iterable[tuple[bytes, int]]]
"""Of a directory's path: the names in it, each with its mode."""


def attributes(mode: int) -> SFTPAttrs:
    return SFTPAttrs(size=len(TEXT), permissions=mode, uid=0, gid=0, atime=1, mtime=1_700_000_000, nlink=1)


@contextmanager
def hostile_host(
    listing: Listing, directories: Callable[[bytes], bool] = lambda path: path == b"/"
) -> Iterator[SourceSpec]:
    """`directories` says which paths are directories; all others are files of `TEXT`."""

    class Files(SFTPServer):
        async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
            for name, mode in listing(path):
                yield SFTPName(name, b"x", attributes(mode))

        def stat(self, path: bytes) -> SFTPAttrs:
            return attributes(DIRECTORY if directories(path) else FILE)

        lstat = stat

        def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> bytes:
            return path

        def read(self, file_obj: object, offset: int, size: int) -> bytes:
            return TEXT[offset : offset + size]

        def fstat(self, file_obj: object) -> SFTPAttrs:
            return attributes(FILE)

        def close(self, file_obj: object) -> None:
            pass

        def realpath(self, path: bytes) -> bytes:
            return path

        def readlink(self, path: bytes) -> bytes:
            return b"/etc/passwd"

    class Host(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return username != USER

    key = asyncssh.generate_private_key("ssh-ed25519")
    thread = LoopThread()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            loopback_address(), 0, server_factory=Host, server_host_keys=[key], sftp_factory=Files, config=None
        )

    server = thread.run(listen())

    async def close() -> None:
        server.close()
        await server.wait_closed()

    try:
        yield specification(
            "sftp",
            loopback_address(),
            port=server.get_port(),
            options={"user": USER},
            secret=PASSWORD,
            host_key=key.export_public_key().decode(),
        )
    finally:
        thread.end(close)
