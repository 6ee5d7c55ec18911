"""Contact with a host: its name is looked up, then its addresses are tried, all within a time limit and with a bounded
number of threads.

A name is given only to the system's resolver, never to a program, so one that begins with "-" is just an unknown name.
"""

import asyncio
import errno
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar
from urllib.parse import urlsplit

from external import special_addresses
from external.network.bounded_threads import BoundedThreads
from external.sockets import sockets

LOOKUP_THREADS = 256
"""Threads for look-ups. A silent resolver takes half a minute over each name."""
LOOKUP_THREADS_OF_ARRIVALS = 64
"""Separate threads for sources that have just checked in, which would otherwise wait for the names of absent hosts."""
MAX_ADDRESSES = 8
"""The most addresses of one name. More would be a flood, not a host."""
NEXT_ADDRESS_AFTER = 0.25
"""Seconds after which the next address is tried in addition to the one before (RFC 8305)."""

OUR_OWN = (errno.EMFILE, errno.ENFILE)
"""Errors that mean nothing about a host: no file descriptor is left here."""

Found = TypeVar("Found")

lookups = BoundedThreads("look-up", LOOKUP_THREADS)
lookups_of_arrivals = BoundedThreads("look-up-arrival", LOOKUP_THREADS_OF_ARRIVALS)
is_arrival: ContextVar[bool] = ContextVar("is_arrival", default=False)
"""True if the host that is contacted in this task has just checked in."""


def host_and_port(url: str) -> tuple[str, int]:
    """Host name and TCP port of the server of an http or https URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


async def addresses_of(host: str) -> list[str]:
    """The IP addresses of a host name that may be contacted (`external.special_addresses`), the preferred one first;
    for an IP address, only itself.

    Raises: OSError if there is none.
    """
    if is_address(host):
        return [host]
    threads = lookups_of_arrivals if is_arrival.get() else lookups
    found = await threads.call(host, lambda: _look_up(host))
    return special_addresses.contactable(host, dict.fromkeys(found))[:MAX_ADDRESSES]


def is_address(host: str) -> bool:
    """True if it is an IP address, which needs no look-up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def names_a_host(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """True if it may be the address of a single host that anything may lead to, including loopback."""
    of_many = address.is_unspecified or address.is_multicast or address.is_link_local or address.is_reserved
    # ::1 is in a reserved network
    return (address.is_loopback or not of_many) and not special_addresses.is_guarded(address)


def reason(error: OSError) -> str:
    """The meaning of a network error, as the system's text, without addresses and numbers."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _look_up(host: str) -> list[str]:
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except UnicodeError:
        raise OSError("that is not a host name") from None


async def first_of(addresses: list[str], ask: Callable[[str], Awaitable[Found]]) -> Found:
    """Ask `addresses`, the next one as soon as one fails or takes long; return the result of the first that succeeds.

    `ask` raises OSError for an address where there is nothing. The others are cancelled once there is an answer. While
    no socket is left, one address is asked after the other.

    Raises: the first address's OSError if there is nothing at any.
    """

    async def ask_one(address: str) -> Found:
        with sockets.one():
            return await ask(address)

    if len(addresses) == 1:
        return await ask_one(addresses[0])
    to_come, under_way = list(addresses), dict[asyncio.Future[Found], str]()
    errors: dict[str, BaseException] = {}
    try:
        while to_come or under_way:
            if to_come and (not under_way or sockets.left > 0):
                address = to_come.pop(0)
                under_way[asyncio.ensure_future(ask_one(address))] = address
            patience = NEXT_ADDRESS_AFTER if to_come else None
            ended, _ = await asyncio.wait(under_way, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for asked in ended:
                address = under_way.pop(asked)
                error = asked.exception()
                if error is None:
                    return asked.result()
                errors[address] = error
    finally:
        for asked in under_way:
            asked.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    raise next((errors[address] for address in addresses), OSError("it has no address"))
