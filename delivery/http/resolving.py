"""Looks up names of hosts, and gives the HTTP client only addresses that it may connect to."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver, ResolveResult

from delivery.addresses import Refused, allowed, refuse_address

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
        if host.rstrip(".").lower() not in allowed().names:
            try:
                for address in addresses:
                    refuse_address(ip_address(address), host)
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
        await self._places.acquire()
        return await _in_thread(lambda: look_up(host, family), self._places.release)


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


async def _in_thread(function: Callable[[], list[str]], ended: Callable[[], None]) -> list[str]:
    """Call `function` in a daemon thread of its own; then `ended` on the loop, whether or not a caller still waits.

    asyncio's executor has a handful of threads, and at its exit Python waits for all of them.
    """
    loop = asyncio.get_running_loop()
    awaited: asyncio.Future[list[str]] = loop.create_future()

    def tell(addresses: list[str], error: Exception | None) -> None:
        ended()
        if awaited.done():
            return
        if error:
            awaited.set_exception(error)
        else:
            awaited.set_result(addresses)

    def work() -> None:
        addresses: list[str] = []
        error: Exception | None = None
        try:
            addresses = function()
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(tell, addresses, error)

    threading.Thread(target=work, name="look-up", daemon=True).start()
    return await awaited
