"""The address at which a source is reached by a program that would look up its name by itself. Between the lookup at
which the rules of `external.special_addresses` were applied and a second one, a name can begin to lead elsewhere.
"""

import socket
from collections.abc import Callable
from typing import TypeVar

from engines.base import RunEnded, Verdict
from external import special_addresses

Found = TypeVar("Found")


def address_of(host: str, port: int, connect_timeout: float) -> str:
    """The IP address for a program that accepts one. `connect_timeout`: seconds. Raises: RunEnded."""
    return _found(lambda: special_addresses.address_of(host, port, connect_timeout))


def addresses_of(host: str) -> list[str]:
    """The IP addresses, the preferred one first, for a program that tries them one after another. Raises: RunEnded."""
    return _found(lambda: special_addresses.addresses_of(host))


def name_of(host: str) -> str:
    """The name itself, for a program that looks it up again because its certificate must contain it. So each of its
    addresses must be one to which a name may lead. Raises: RunEnded.
    """

    def look() -> str:
        found = [str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        if left_out := sorted({*found} - {*special_addresses.contactable(host, found)}):
            raise special_addresses.GuardedAddress(f"{host} leads to {left_out[0]}, too, and {special_addresses.WHY}")
        return host

    return _found(look)


def _found(look: Callable[[], Found]) -> Found:
    try:
        return look()
    except OSError as error:
        raise RunEnded(Verdict.UNAVAILABLE, f"the source does not answer: {error.strerror or error}") from None
