"""Looks up names of hosts, and gives the HTTP client only addresses that it may connect to."""

import asyncio
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress

from aiohttp.abc import AbstractResolver, ResolveResult

from delivery.addresses import Refused, refuse_addresses

MOST_LOOK_UPS = 64
"""At once. A resolver that is silent takes half a minute over each name."""
MOST_ADDRESSES = 8
"""Of one name that are tried."""


class NotAllowed(OSError):
    """A name has an address that may not be reached. The message is for people."""


class NoSuchName(OSError):
    """A name has no address. The message is for people."""


class CheckedResolver(AbstractResolver):
    """Every address that a name has must be public or allowed; those are returned, so those are connected to."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST_LOOK_UPS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises: NotAllowed, NoSuchName."""
        addresses = await self._addresses_of(host, family)
        try:
            refuse_addresses(host, addresses)
        except Refused as refused:
            raise NotAllowed(str(refused)) from None
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses[:MOST_ADDRESSES]
        ]

    async def close(self) -> None:
        """Nothing is held."""

    async def _addresses_of(self, host: str, family: int) -> list[str]:
        """Looked up in a daemon thread of its own: asyncio's executor has a handful of threads, and at its exit Python
        waits for all of them. The place is given back when the thread ends, whether or not its caller still waits."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        found: Future[list[str]] = Future()
        found.set_running_or_notify_cancel()

        def work() -> None:
            try:
                found.set_result(look_up(host, family))
            except Exception as error:
                found.set_exception(error)
            with suppress(RuntimeError):  # the loop has ended in the meantime
                loop.call_soon_threadsafe(self._places.release)

        threading.Thread(target=work, name="look-up", daemon=True).start()
        return await asyncio.wrap_future(found)


def look_up(host: str, family: int) -> list[str]:
    """The addresses of a name, the preferred one first. Takes as long as the system's resolver does.

    Raises: NoSuchName.
    """
    try:
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
    except UnicodeError:
        raise NoSuchName("that is no host name") from None
    except socket.gaierror as error:
        raise NoSuchName(error.strerror or str(error)) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))
