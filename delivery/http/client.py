"""The HTTP client: one for each event loop, with the connections that it keeps for the next callback.

It is made at the first delivery. Its own task ends with the loop (which cancels unfinished tasks at its end) and closes
the client then. Errors are reworded here: the client's own texts quote URLs and headers.
"""

import asyncio
import os
import socket
import ssl
from contextvars import ContextVar
from functools import lru_cache
from io import BytesIO

import aiohttp
from yarl import URL

from delivery.http.resolving import CheckedResolver, NoSuchName, NotAllowed

RAISED = (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError, ValueError)
"""The exceptions of the client. TimeoutError and SSLError are OSErrors."""

KEEP_ALIVE_SECONDS = 15.0
"""Seconds for which an idle connection is kept."""
MOST_READ = 65_536
"""Bytes of an answer. A server that sends more has answered, but its connection is not used again."""
LARGE_BODY = 1_000_000
"""Bytes from which the client wants a file, so that it sends piece by piece."""
LOOK_UP_AGAIN_SECONDS = 10
"""Seconds for which a new connection may use addresses that were looked up, and checked, for an earlier one."""

ALWAYS_SENT = {
    "User-Agent": "backupsched",
    "Accept": "*/*",
    # the answer is thrown away; a small compressed one may be huge
    "Accept-Encoding": "identity",
}


class _RequestFacts:
    """A record of what a request opened: a connection, or none if it used one that was kept."""

    a_connection = False


_asking: ContextVar[_RequestFacts | None] = ContextVar("asking", default=None)
"""The record of the request that is under way in this task."""

_sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, "asyncio.Task[None]"]] = {}


def session() -> aiohttp.ClientSession:
    """The one of the running event loop. It keeps no cookies and honours no proxy of the environment."""
    loop = asyncio.get_running_loop()
    found = _sessions.get(loop)
    if found is None:
        made = _new_session()
        # held here: a loop holds its tasks weakly
        found = _sessions[loop] = made, loop.create_task(_close_at_the_end(made), name="keep-connections")
    return found[0]


async def post(
    url: URL, body: bytes, headers: dict[str, str], connect_timeout: float
) -> tuple[aiohttp.ClientResponse, bytes]:
    """Send `body`. Returns the answer, of which only the beginning is read, and that beginning. It follows no redirect,
    and has no time limit except for `connect_timeout` (seconds).

    The host may have closed a kept connection just when it is used again. That is not a failure of this event, which is
    sent once more; if it has come twice, the host can tell by its id. Raises: the exceptions in RAISED.
    """
    made = _RequestFacts()
    _asking.set(made)
    try:
        response = await _send(url, body, headers, connect_timeout)
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError, aiohttp.ClientOSError) as error:
        if made.a_connection or isinstance(error, aiohttp.ClientConnectorError):
            raise
        response = await _send(url, body, headers, connect_timeout)
    try:
        return response, await _beginning_of(response)
    finally:
        response.release()  # closes the connection, unless the answer is read to its end


async def _send(url: URL, body: bytes, headers: dict[str, str], connect_timeout: float) -> aiohttp.ClientResponse:
    data = body if len(body) < LARGE_BODY else BytesIO(body)
    timeout = _timeout(connect_timeout)
    return await session().post(url, data=data, headers=headers, allow_redirects=False, timeout=timeout)


@lru_cache(maxsize=64)
def _timeout(connect_timeout: float) -> aiohttp.ClientTimeout:
    """The time limit for connecting. The caller of `post` limits the whole request."""
    return aiohttp.ClientTimeout(total=None, connect=connect_timeout)


async def _beginning_of(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    while more := await response.content.read(MOST_READ - len(body)):
        body += more
    return body


def _new_session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=0,  # the queue's concurrency is the limit
        resolver=CheckedResolver(),
        ttl_dns_cache=LOOK_UP_AGAIN_SECONDS,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        socket_factory=_new_socket,
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers=ALWAYS_SENT,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
    )


def _new_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    if made := _asking.get():
        made.a_connection = True
    family, kind, protocol, _, _ = address
    return socket.socket(family, kind, protocol)


async def _close_at_the_end(held: aiohttp.ClientSession) -> None:
    loop = asyncio.get_running_loop()
    try:
        await loop.create_future()
    finally:
        _sessions.pop(loop, None)
        await held.close()


def is_ours(error: BaseException) -> bool:
    """True if the fault is ours and not the host's: our rules, or our request, forbid it."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, NotAllowed | aiohttp.InvalidURL | ValueError)


def describe(error: BaseException, origin: str, connect_timeout: float, timeout: float) -> str:
    """One sentence about the error at `origin`. Both times in seconds."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return f"{origin} did not accept a connection within {connect_timeout:g} s"
        case TimeoutError():
            return f"{origin} did not answer within {timeout:g} s"
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or _reason(error.certificate_error)
            return f"{origin} has a certificate that is not trusted: {reason}"
        case aiohttp.ClientConnectorDNSError():
            match error.os_error:
                case NotAllowed() as refused:
                    return f"nothing is delivered to {origin}: {refused}"
                case NoSuchName() as unknown:
                    return f"the name of {origin} could not be looked up: {unknown}"
            return f"the name of {origin} could not be looked up"
        case aiohttp.ClientSSLError():
            return f"{origin} does not speak TLS with us: {_reason(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"{origin} could not be reached: {_reason(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            return f"{origin} closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return f"{origin} closed the connection in the middle of its answer"
        case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
            return f"{origin} answered something that is not HTTP"
        case aiohttp.InvalidURL() | ValueError():
            return f"a header or the URL for {origin} cannot be sent: is there a line break in it?"
        case ssl.SSLError():
            return f"{origin} broke off the TLS connection: {_reason(error)}"
        case OSError():
            return f"the connection to {origin} broke: {_reason(error)}"
        case _:
            return f"the request to {origin} failed, and no reason was given"


def _reason(error: Exception) -> str:
    """The words of TLS or of the system, without addresses and numbers."""
    if reason := getattr(error, "reason", ""):
        return str(reason)
    if not isinstance(error, OSError):
        return "no reason was given"
    if error.errno is None or error.errno < 0 or isinstance(error, socket.gaierror):
        return error.strerror or "no reason was given"
    return os.strerror(error.errno)
