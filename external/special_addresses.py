"""Addresses that a worker contacts only where they were written as such: link-local ones, the services from which the
machines of a cloud get their credentials and, where a setting closes it, loopback.

Any user who edits a source or a repository decides where the workers connect. So it takes a permission to save one of
these addresses (`sources/declarations/reach.py`), and a saved one is contacted. A *name* never leads to one, whatever
its server answers today: these addresses are left out, and one of the name's others is connected to.
"""

import ipaddress
import socket
from collections.abc import Iterable

from external.public import NAT64, Address, unmapped

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LINK_LOCAL = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10")))
METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure's host
            "192.0.0.192/32",  # Oracle, of the first generation
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "fd00:ec2::/32",  # Amazon
            "fd20:ce::254/128",  # Google
        ),
    )
)
LOOPBACK = tuple(map(ipaddress.ip_network, ("127.0.0.0/8", "0.0.0.0/8", "::1/128", "::/128")))
"""A connection to the unspecified address reaches this host."""
NAMES = frozenset(
    {"metadata", "metadata.goog", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}
)
"""Names that mean such a service wherever they are known."""

WHY = (
    "no name may lead to a link-local address, the metadata service of a cloud or, depending on "
    "BACKUPSCHED_LOOPBACK, loopback: if that is right, an administrator names the address"
)

loopback_is_open = True
"""True if loopback is reached like any other address (the setting `LOOPBACK`)."""


class GuardedAddress(OSError):
    """A name has only guarded addresses. The message is for users."""


def is_guarded(address: Address) -> bool:
    """True if an address is contacted only where it was written as such."""
    plain = _inner(unmapped(address))
    return any(plain in each for each in (*LINK_LOCAL, *METADATA, *(() if loopback_is_open else LOOPBACK)))


def is_never_public(address: Address) -> bool:
    """The same, whatever the setting of loopback."""
    plain = _inner(unmapped(address))
    return any(plain in each for each in (*LINK_LOCAL, *METADATA))


def is_of_guarded(network: Network) -> bool:
    """True if a network holds only addresses of `is_never_public`."""
    same = (each for each in (*LINK_LOCAL, *METADATA) if each.version == network.version)
    return any(network.subnet_of(each) for each in same)  # type: ignore[arg-type]


def names_guarded(host: str) -> bool:
    """True if a host is written as such an address, or as a name that means one."""
    try:
        return is_guarded(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        name = host.lower().rstrip(".")
    if not loopback_is_open and (name == "localhost" or name.endswith(".localhost")):
        return True
    return name in NAMES


def contactable(host: str, addresses: Iterable[str]) -> list[str]:
    """The addresses of a host that may be contacted: all of them if the host is written as an address.

    Raises: GuardedAddress if there is none.
    """
    found = list(addresses)
    if names_guarded(host) or host in found:
        return found
    left = [each for each in found if not is_guarded(ipaddress.ip_address(each))]
    if found and not left:
        raise GuardedAddress(f"{host} leads to {found[0]}, and {WHY}")
    return left


def addresses_of(host: str) -> list[str]:
    """The addresses of a host that may be contacted, the preferred one first. Takes as long as the system's resolver.

    Raises: OSError if there is none.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError("that is not a host name") from None
    return contactable(host, dict.fromkeys(str(each[4][0]) for each in found))


def address_of(host: str, port: int, seconds: float) -> str:
    """The first address of a host that may be contacted; if there are several, the first that accepts a connection at
    the port. For a program that would look the name up itself, and be led elsewhere. `seconds`: for each connection.

    Raises: OSError if there is none.
    """
    first, *others = addresses_of(host)
    for address in (first, *others) if others else ():
        try:
            socket.create_connection((address, port), seconds).close()
        except OSError:
            continue
        return address
    return first


def _inner(address: Address) -> Address:
    """The IPv4 address that a translator or relay connects to."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in NAT64 or 1 < int(address) < 2**32:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.sixtofour or address
    return address
