"""Is the source there? Asked outside the execution units, so an absent laptop costs none of them anything.

| kind | it is there when |
|---|---|
| sftp | its port says something; accepting a connection is not enough: a frozen host does, and is silent |
| s3, webdav | its port answers a request, or a TLS greeting, whatever it answers |
| postgresql | the server answers `SELECT 1`, or refuses us: the engine will say what is wrong |
| local | the folder is the expected volume (its marker file is there) and not an empty mount point |

What it answers is the engine's business. All of it, look-up of the name included, takes one timeout.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources.availability.postgresql import ask_server
from sources.models import Source
from sources.models.source import SourceKind
from sources.network import contact
from sources.network.bounded_threads import BoundedThreads

USUAL_PORTS = {SourceKind.SFTP: 22, SourceKind.POSTGRESQL: 5432}

FOLDER_THREADS = 64
"""Folders looked at at once. Each dead share holds one; asked again, it holds no second."""
BANNER_BYTES = 255
"""The longest first line of an SSH server (RFC 4253, 4.2)."""

HUNG_UP = "it hung up without a word"

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Takes any certificate: nothing is sent to whom it greets, and the engine looks at it."""
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

folders = BoundedThreads("look-at-folder", FOLDER_THREADS)


@dataclass(frozen=True)
class Answer:
    """Whether a source answered, and what was asked: one sentence for people."""

    present: bool
    text: str


async def ask(source: Source, timeout: float) -> Answer:
    """Contact `source`, for at most `timeout` seconds. Never raises for what the source or the network does.

    Raises: OSError when this process has no file descriptor left.
    """
    place = place_of(source)
    try:
        async with asyncio.timeout(timeout):
            return await _ask(source, place, timeout)
    except TimeoutError:
        busy = source.kind == SourceKind.LOCAL and folders.are_all_busy
        why = f": {FOLDER_THREADS} folders hang; is a share of this worker dead?" if busy else ""
        return Answer(False, f"{place} did not answer within {timeout:g} s{why}")
    except OSError as error:
        if error.errno in contact.OUR_OWN:
            raise
        return Answer(False, f"{place} did not answer: {contact.reason(error)}")


def ask_now(source: Source, timeout: float) -> Answer:
    """The same, from a thread without an event loop."""
    return asyncio.run(ask(source, timeout))


def place_of(source: Source) -> str:
    """Where a source is asked, for people: a folder, a socket, or host and port."""
    if source.kind == SourceKind.LOCAL:
        return source.path
    if is_at_socket(source):
        return f"{source.address}/.s.PGSQL.{source.port or USUAL_PORTS[SourceKind.POSTGRESQL]}"
    return "{}:{}".format(*contact_point(source))


def is_at_socket(source: Source) -> bool:
    """Whether it is a database server of this host, asked at the socket in its directory."""
    return source.kind == SourceKind.POSTGRESQL and source.address.startswith("/")


def contact_point(source: Source) -> tuple[str, int]:
    """Host name and TCP port at which a source is asked."""
    if source.kind in (SourceKind.S3, SourceKind.WEBDAV):
        return contact.host_and_port(source.address)
    return source.address, source.port or USUAL_PORTS[SourceKind(source.kind)]


async def _ask(source: Source, place: str, timeout: float) -> Answer:
    if source.kind == SourceKind.LOCAL:
        folder, marker = Path(source.path), str(source.options.get("marker") or "")
        return await folders.call((folder, marker), lambda: _look_at(folder, marker))
    if is_at_socket(source):
        return Answer(True, await ask_server(source, place, source.address, timeout))
    host, port = contact_point(source)

    async def ask_address(address: str) -> Answer:
        match source.kind:
            case SourceKind.POSTGRESQL:
                return Answer(True, await ask_server(source, place, address, timeout))
            case SourceKind.SFTP:
                return Answer(True, f"{place} {await _listen_to(address, port)}")
            case _:
                await _greet(address, port, host, is_tls=source.address.startswith("https:"))
                return Answer(True, f"{place} answered")

    return await contact.first_of(await contact.addresses_of(host), ask_address)


def _look_at(folder: Path, marker: str) -> Answer:
    try:
        if not folder.is_dir():
            return Answer(False, f"there is no folder {folder}")
        if marker and not (folder / marker).exists():
            return Answer(False, f"{folder} lacks its marker {marker}: is the volume mounted?")
    except OSError as error:  # no permission, a stale mount
        return Answer(False, f"cannot look at {folder}: {error.strerror}")
    return Answer(True, f"{folder} is there")


@contextlib.asynccontextmanager
async def _connected(address: str, port: int, **tls: Any) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(address, port, **tls)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()  # at once: nothing was sent that could be lost


async def _greet(address: str, port: int, host: str, *, is_tls: bool) -> None:
    """Return when a web server says anything. Raises: OSError when it hangs up without a word."""
    if not is_tls:
        async with _connected(address, port) as (reader, writer):
            name = f"[{host}]" if ":" in host else host
            writer.write(f"HEAD / HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode())
            await _hear(reader)
        return
    try:
        async with _connected(address, port, ssl=TLS, server_hostname=host):
            return
    except ssl.SSLError:
        return  # it speaks, if not to us


async def _hear(reader: asyncio.StreamReader) -> bytes:
    heard = await reader.read(BANNER_BYTES)
    if not heard:
        raise OSError(HUNG_UP)
    return heard


async def _listen_to(address: str, port: int) -> str:
    """Whether it is an SSH host that answers. What another one sends is not repeated: an account that may change an
    address would read the banners of a whole network. Raises: OSError when it hangs up without a word."""
    async with _connected(address, port) as (reader, _):
        heard = await _hear(reader)
    return "answered" if heard.startswith(b"SSH-") else "answered, but not as an SSH host"
