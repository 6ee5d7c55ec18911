"""The question whether a source is there: outside the execution units, so that an absent laptop costs them nothing.

| kind | it is there when |
|---|---|
| sftp | its port sends a greeting; accepting a connection is not enough: a frozen host does that, and is silent |
| imap | its port sends a greeting, after a TLS handshake where it has one |
| rclone | as its type: SMB and FTP greet, HTTP answers. A cloud service is always there: its engine asks it |
| s3, webdav | its port answers a request, or a TLS handshake, in any way |
| postgresql | the server answers `SELECT 1`, or refuses us: the engine will report the problem |
| local | the folder is the expected volume (its marker file is there), and its path leads where it led |
| mariadb | the server, which speaks first, sends a greeting or an error |
| sqlite | its file is there, and its path leads where it led |

The engine judges the content of the answer. Everything, including the look-up of the name, shares one timeout.
"""

import asyncio
import contextlib
import re
import ssl
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.cleartext import imap_is_tls, imap_port
from engines.rclone.remotes import server_of
from engines.whereabouts import led_elsewhere
from external.network import contact
from external.network.bounded_threads import BoundedThreads
from sources.availability.postgresql import ask_server
from sources.models import Source
from sources.models.source import ON_THIS_HOST, SourceKind

USUAL_PORTS = {SourceKind.SFTP: 22, SourceKind.POSTGRESQL: 5432, SourceKind.MARIADB: 3306}

FOLDER_THREADS = 64
"""Folders that are examined at the same time. Each dead share occupies one thread, however often it is asked."""
BANNER_BYTES = 255
"""The longest first line of an SSH server (RFC 4253, 4.2)."""

SMB_NEGOTIATE = struct.pack(
    ">I4sHHIHHIIQIIQ16s", 104, b"\xfeSMB", 0x4000, 0, 0, 0, 0x0100, 0, 0, 0, 0, 0, 0, bytes(16)
) + struct.pack("<HHHHI16sQHH", 36, 2, 1, 0, 0, bytes(16), 0, 0x0202, 0x0210)
"""A request that an SMB server answers (MS-SMB2, 2.2.3); before it, the server is silent."""

GREETINGS = {
    "sftp": (b"SSH-", "an SSH host", b""),
    "imap": (rb"\* ", "an IMAP server", b""),
    "ftp": (b"220", "an FTP server", b""),
    "smb": (rb".{5}SMB", "an SMB server", SMB_NEGOTIATE),
    # its first packet, of protocol 10, or an error, such as that it has no connection left
    "mariadb": (rb"...\0[\n\xff]", "a MariaDB server", b""),
}
"""Kind, or type of rclone → the greeting, the server that sends it, and the bytes to send first (empty if the server
speaks first).
"""
HUNG_UP = "it hung up without a word"

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A context that accepts any certificate: no data is sent to the greeted server, and the engine checks its certificate.
"""
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

folders = BoundedThreads("look-at-folder", FOLDER_THREADS)


@dataclass(frozen=True)
class Answer:
    """An answer: whether the source answered, and a sentence for users about what was asked."""

    present: bool
    text: str


async def ask(source: Source, timeout: float) -> Answer:
    """Contact `source`, for at most `timeout` seconds. Never raises because of the source or the network.

    Raises: OSError when this process has no file descriptor left.
    """
    place = place_of(source)
    try:
        async with asyncio.timeout(timeout):
            return await _ask(source, place, timeout)
    except TimeoutError:
        busy = source.kind in ON_THIS_HOST and folders.are_all_busy
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
    """The place where a source is asked, for users: a folder, a socket, or host and port."""
    if source.kind in ON_THIS_HOST:
        return source.path
    if is_cloud(source):
        return f"the {source.options.get('type')} service"
    if is_at_socket(source) and source.kind == SourceKind.MARIADB:
        return source.address
    if is_at_socket(source):
        return f"{source.address}/.s.PGSQL.{source.port or USUAL_PORTS[SourceKind.POSTGRESQL]}"
    return "{}:{}".format(*contact_point(source))


def is_at_socket(source: Source) -> bool:
    """True for a database server on this host that is asked at a socket: PostgreSQL's address is its directory."""
    return source.kind in (SourceKind.POSTGRESQL, SourceKind.MARIADB) and source.address.startswith("/")


def is_cloud(source: Source) -> bool:
    """True if it names no server that could be asked."""
    return source.kind == SourceKind.RCLONE and server_of(source.options) is None


def contact_point(source: Source) -> tuple[str, int]:
    """Host name and TCP port at which a source is asked."""
    if source.kind in (SourceKind.S3, SourceKind.WEBDAV):
        return contact.host_and_port(source.address)
    if source.kind == SourceKind.RCLONE and (named := server_of(source.options)):
        return named[:2]
    if source.kind == SourceKind.IMAP:
        return source.address, source.port or imap_port(source.options)
    return source.address, source.port or USUAL_PORTS[SourceKind(source.kind)]


def _is_tls(source: Source) -> bool:
    """True if it is greeted in TLS."""
    if source.kind == SourceKind.RCLONE:
        return bool((server_of(source.options) or (False,))[-1])
    return imap_is_tls(source.options) if source.kind == SourceKind.IMAP else source.address.startswith("https:")


async def _ask(source: Source, place: str, timeout: float) -> Answer:
    real = source.real_path
    if source.kind == SourceKind.SQLITE:
        file = Path(source.path)
        return await folders.call((file, "", real), lambda: _look_at_file(file, real))
    if source.kind == SourceKind.LOCAL:
        folder, marker = Path(source.path), str(source.options.get("marker") or "")
        return await folders.call((folder, marker, real), lambda: _look_at(folder, marker, real))
    if is_cloud(source):
        return Answer(True, f"{place} is asked by its engine")
    host, port = contact_point(source)
    kind = source.options.get("type") if source.kind == SourceKind.RCLONE else source.kind
    tls: dict[str, Any] = {"ssl": TLS, "server_hostname": host} if _is_tls(source) else {}

    async def ask_address(address: str) -> Answer:
        if source.kind == SourceKind.POSTGRESQL:
            return Answer(True, await ask_server(source, place, address, timeout))
        if kind in GREETINGS:
            return Answer(True, f"{place} {await _listen_to(address, port, *GREETINGS[kind], **tls)}")
        await _greet(address, port, host, **tls)
        return Answer(True, f"{place} answered")

    addresses = [host] if is_at_socket(source) else await contact.addresses_of(host)
    return await contact.first_of(addresses, ask_address)


def _look_at(folder: Path, marker: str, real_path: str) -> Answer:
    try:
        if text := led_elsewhere(str(folder), real_path):
            return Answer(False, text)
        if not folder.is_dir():
            return Answer(False, f"there is no folder {folder}")
        if marker and not (folder / marker).exists():
            return Answer(False, f"{folder} lacks its marker {marker}: is the volume mounted?")
    except OSError as error:  # no permission, a stale mount
        return Answer(False, f"cannot look at {folder}: {error.strerror}")
    return Answer(True, f"{folder} is there")


def _look_at_file(file: Path, real_path: str) -> Answer:
    try:
        if text := led_elsewhere(str(file), real_path):
            return Answer(False, text)
        is_there = file.is_file()
    except OSError as error:
        return Answer(False, f"cannot look at {file}: {error.strerror}")
    return Answer(is_there, f"{file} is there" if is_there else f"there is no file {file}")


@contextlib.asynccontextmanager
async def _connected(address: str, port: int, **tls: Any) -> AsyncIterator[Streams]:
    at_socket = address.startswith("/")
    opening = asyncio.open_unix_connection(address) if at_socket else asyncio.open_connection(address, port, **tls)
    reader, writer = await opening
    try:
        yield reader, writer
    finally:
        writer.transport.abort()  # at once: nothing was sent that could be lost


async def _greet(address: str, port: int, host: str, **tls: Any) -> None:
    """Return when a web server answers anything. Raises: OSError if it hangs up without an answer."""
    with contextlib.suppress(ssl.SSLError):  # an answer, too
        async with _connected(address, port, **tls) as (reader, writer):
            if not tls:
                name = f"[{host}]" if ":" in host else host
                writer.write(f"HEAD / HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode())
                await _hear(reader)


async def _hear(reader: asyncio.StreamReader) -> bytes:
    heard = await reader.read(BANNER_BYTES)
    if not heard:
        raise OSError(HUNG_UP)
    return heard


async def _listen_to(address: str, port: int, greeting: bytes, what: str, ask: bytes, **tls: Any) -> str:
    """A phrase: the expected server (`what`) answered after `ask` was sent (empty if it speaks first), so that
    `greeting` matches, or another one did. The text of another server is not repeated: an account that may change an
    address could read the banners of a whole network. Raises: OSError when it hangs up without a word.
    """
    try:
        async with _connected(address, port, **tls) as (reader, writer):
            writer.write(ask)
            heard = await _hear(reader)
    except ssl.SSLError:
        heard = b""  # an answer, too
    return "answered" if re.match(greeting, heard, re.DOTALL) else f"answered, but not as {what}"
