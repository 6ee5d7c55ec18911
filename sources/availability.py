"""Is the source there? Asked outside the execution units, so an absent laptop costs none of them anything.

A source answers when a connection to its engine's port is accepted; a local folder, when it is the expected volume
(its marker file is there) and not an empty mount point. What it answers is the engine's business.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sources.models import Source
from sources.models.source import SourceKind

USUAL_PORTS = {SourceKind.SFTP: 22, SourceKind.POSTGRESQL: 5432}


@dataclass(frozen=True)
class Answer:
    """Whether a source answered, and what was asked: one sentence for people."""

    present: bool
    said: str


async def ask(source: Source, timeout: float) -> Answer:
    """Contact `source`, for at most `timeout` seconds."""
    if source.kind == SourceKind.LOCAL:
        try:
            return await asyncio.wait_for(asyncio.to_thread(_ask_folder, source), timeout)
        except TimeoutError:
            return Answer(False, f"{source.path} did not answer within {timeout:g} s")
    return await _ask_port(source, timeout)


def ask_now(source: Source, timeout: float) -> Answer:
    """The same, from a thread without an event loop."""
    return asyncio.run(ask(source, timeout))


def _ask_folder(source: Source) -> Answer:
    folder = Path(source.path)
    marker = source.options.get("marker")
    try:
        if not folder.is_dir():
            return Answer(False, f"there is no folder {folder}")
        if marker and not (folder / str(marker)).exists():
            return Answer(False, f"{folder} lacks its marker {marker}: is the volume mounted?")
    except OSError as error:  # no permission, a stale mount
        return Answer(False, f"cannot look at {folder}: {error.strerror}")
    return Answer(True, f"{folder} is there")


async def _ask_port(source: Source, timeout: float) -> Answer:
    if source.kind == SourceKind.POSTGRESQL and source.address.startswith("/"):
        place = f"{source.address}/.s.PGSQL.{source.port or 5432}"
        connecting = asyncio.open_unix_connection(place)
    else:
        host, port = contact_point(source)
        place = f"{host}:{port}"
        connecting = asyncio.open_connection(host, port)
    try:
        _, writer = await asyncio.wait_for(connecting, timeout)
    except TimeoutError:
        return Answer(False, f"{place} did not answer within {timeout:g} s")
    except OSError as error:
        return Answer(False, f"{place} did not answer: {error.strerror or error}")
    except UnicodeError:
        return Answer(False, f"{place} did not answer: that is no host name")
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return Answer(True, f"{place} answered")


def contact_point(source: Source) -> tuple[str, int]:
    """Host name and TCP port at which a source is asked."""
    if source.kind in (SourceKind.S3, SourceKind.WEBDAV):
        url = urlsplit(source.address)
        return url.hostname or "", source.port or url.port or (80 if url.scheme == "http" else 443)
    return source.address, source.port or USUAL_PORTS[SourceKind(source.kind)]
