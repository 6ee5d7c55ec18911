"""Looks up names of hosts, and gives the HTTP client only addresses that it may connect to."""

import asyncio
import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from delivery.addresses import AddressRefused, refuse_addresses
from delivery.blocking_calls import aside

MOST_LOOK_UPS = 64
"""The most look-ups at once. A silent resolver takes half a minute over each name."""
MOST_ADDRESSES = 8
"""The most addresses of one name that are tried."""


class NotAllowed(OSError):
    """A name has an address that may not be reached. The message is for users."""


class NoSuchName(OSError):
    """A name has no address. The message is for users."""


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
        except AddressRefused as refused:
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
        """The place is given back when the look-up has ended."""
        await self._places.acquire()
        return await aside(lambda: look_up(host, family), self._places.release)


def look_up(host: str, family: int) -> list[str]:
    """The addresses of a name, the preferred one first. Takes as long as the system's resolver does.

    Raises: NoSuchName.
    """
    try:
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
    except UnicodeError:
        raise NoSuchName("that is not a host name") from None
    except socket.gaierror as error:
        raise NoSuchName(error.strerror or str(error)) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))
