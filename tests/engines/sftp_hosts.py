"""SFTP hosts that are none: one lists what it likes, another refuses single files, or has limits."""

import stat
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import asyncssh
from asyncssh.sftp import SFTPAttrs, SFTPFailure, SFTPName, SFTPServer

from engines.base import SourceSpec
from tests.engines.peers import PASSWORD, USER, loopback_address, specification
from tests.loop_thread import LoopThread

TEXT = b"from the host"
DIRECTORY, FILE, LINK = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777

Listing = Callable[[bytes], Iterable[tuple[bytes, int]]]
"""A function of a directory's path: the names in it, each with its mode."""


def facts(mode: int, size: int = len(TEXT)) -> SFTPAttrs:
    return SFTPAttrs(size=size, permissions=mode, uid=0, gid=0, atime=1, mtime=1_700_000_000, nlink=1)


class Paths(SFTPServer):
    """A path is its own real path, and the handle by which it is open."""

    def realpath(self, path: bytes) -> bytes:
        return path

    def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> bytes:
        return path

    def close(self, file_obj: object) -> None:
        pass


@contextmanager
def hostile_host(
    listing: Listing, directories: Callable[[bytes], bool] = lambda path: path == b"/"
) -> Iterator[SourceSpec]:
    """Its files are there under any name that a client asks for. `directories` says which paths are directories; all
    others are files of `TEXT`."""

    class Files(Paths):
        async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
            for name, mode in listing(path):
                yield SFTPName(name, b"x", facts(mode))

        def stat(self, path: bytes) -> SFTPAttrs:
            return facts(DIRECTORY if directories(path) else FILE)

        lstat = stat

        def read(self, file_obj: object, offset: int, size: int) -> bytes:
            return TEXT[offset : offset + size]

        def fstat(self, file_obj: object) -> SFTPAttrs:
            return facts(FILE)

        def readlink(self, path: bytes) -> bytes:
            return b"/etc/passwd"

    with _served(Files) as source:
        yield source


@contextmanager
def sftp_with_limits(
    files: Mapping[str, bytes], *, refused: Collection[str] = (), one_at_a_time: bool = False
) -> Iterator[SourceSpec]:
    """A flat folder. `refused`: names that cannot be opened (SSH_FX_FAILURE), as what another program has locked;
    `one_at_a_time`: a second file is not opened while one is."""
    opened: list[bytes] = []

    class Files(Paths):
        async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
            for name, content in files.items():
                yield SFTPName(name.encode(), b"x", facts(FILE, len(content)))

        def stat(self, path: bytes) -> SFTPAttrs:
            name = path.decode().strip("/")
            return facts(FILE, len(files[name])) if name in files else facts(DIRECTORY, 0)

        lstat = fstat = stat

        def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> bytes:
            if path.decode().strip("/") in refused or (one_at_a_time and opened):
                raise SFTPFailure("Failure")
            opened.append(path)
            return path

        async def read(self, file_obj: bytes, offset: int, size: int) -> bytes:
            return files[file_obj.decode().strip("/")][offset : offset + size]

        def close(self, file_obj: bytes) -> None:
            opened.remove(file_obj)

    with _served(Files) as source:
        yield source


@contextmanager
def _served(files: type[SFTPServer]) -> Iterator[SourceSpec]:
    class Host(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return username != USER

    key, thread = asyncssh.generate_private_key("ssh-ed25519"), LoopThread()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            loopback_address(), 0, server_factory=Host, server_host_keys=[key], sftp_factory=files, config=None
        )

    server = thread.run(listen())

    async def close() -> None:
        server.close()
        await server.wait_closed()

    pinned, options = key.export_public_key().decode(), {"user": USER}
    try:
        yield specification(
            "sftp", loopback_address(), port=server.get_port(), options=options, secret=PASSWORD, host_key=pinned
        )
    finally:
        thread.end(close)
