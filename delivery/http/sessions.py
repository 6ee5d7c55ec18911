"""The HTTP client: one for each event loop, with the connections that it keeps for the next callback.

It is made at the first callback. A task of its own ends with the loop (which cancels what is left at its end) and
closes it then.
"""

import asyncio
import socket
from contextvars import ContextVar

import aiohttp

from delivery.http.resolving import CheckedResolver

KEEP_ALIVE_SECONDS = 15.0
"""For which an idle connection is kept."""
LOOK_UP_AGAIN_SECONDS = 10
"""For which a new connection may use the addresses that were looked up, and checked, for an earlier one."""

USER_AGENT = "backupsched"
ALWAYS_SENT = {
    "User-Agent": USER_AGENT,
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
        made = _made()
        # held here: a loop holds its tasks weakly
        found = _sessions[loop] = made, loop.create_task(_close_at_the_end(made), name="keep-connections")
    return found[0]


def _made() -> aiohttp.ClientSession:
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
