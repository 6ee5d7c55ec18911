"""The HTTP client: one for each event loop, with the connections that it keeps for the next callback.

It is made at the first callback. A task of its own ends with the loop (which cancels what is left at its end) and
closes it then. What it raises is put into words here: its own quote URLs and headers.
"""

import asyncio
import os
import socket
import ssl
from contextvars import ContextVar

import aiohttp

from delivery.http.resolving import CheckedResolver, NoSuchName, NotAllowed

RAISED = (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError, ValueError)
"""What the client raises. TimeoutError and SSLError are OSErrors."""

KEEP_ALIVE_SECONDS = 15.0
"""For which an idle connection is kept."""
LOOK_UP_AGAIN_SECONDS = 10
"""For which a new connection may use the addresses that were looked up, and checked, for an earlier one."""

ALWAYS_SENT = {
    "User-Agent": "backupsched",
    "Accept": "*/*",
    # the answer is thrown away; what is small when packed may be huge
    "Accept-Encoding": "identity",
}


class Made:
    """What a request has made on its way: a connection, or none when it used one that was kept."""

    a_connection = False


asking: ContextVar[Made | None] = ContextVar("asking", default=None)
"""Of the request that is under way in this task."""

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
    if made := asking.get():
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
    """Whether it is no fault of the host: our rules, or our request, forbid it."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, NotAllowed | aiohttp.InvalidURL | ValueError)


def describe(error: BaseException, origin: str, connect_timeout: float, timeout: float) -> str:
    """One sentence about what happened with `origin`. Both times in seconds."""
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
            return f"{origin} hung up without an answer"
        case aiohttp.ClientPayloadError():
            return f"{origin} broke off in the middle of its answer"
        case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
            return f"{origin} answered something that is not HTTP"
        case aiohttp.InvalidURL() | ValueError():
            return f"a header or the URL for {origin} cannot be sent: has it a line break in it?"
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
