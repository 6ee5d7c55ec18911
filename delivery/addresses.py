"""Addresses to which deliveries may go. An endpoint must not lead to servers that only our own network reaches: the
metadata service of a cloud, a database, an admin page on loopback (server-side request forgery).

1. A URL is read once, by the library that connects as well, so no two readers can understand it differently.
2. Only http and https; no user name in it; an IP address only in its ordinary form.
3. An address must be public, or in the setting CALLBACKS_ALLOWED: as a network, or by the exact name of its host. One
   of `external.special_addresses` only as a network that holds nothing else: no wide network and no name includes it.
4. We look up a name ourselves (`delivery/http/resolving.py`), check all its addresses, and connect to one of those. A
   single address that is not allowed refuses the name: half a public host is an attack or a mistake.
5. Each redirect starts again at 1.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from external import special_addresses
from external.public import Address, is_public, unmapped

if TYPE_CHECKING:
    from yarl import URL

Network = IPv4Network | IPv6Network

SCHEMES = ("http", "https")
LONGEST_NAME = 253
LONGEST_URL = 2000

ODD_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\.?$")
"""A last label of which resolvers make an IPv4 address: 2130706433, 0x7f.1, 0177.0.0.1."""
NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\\]")


class AddressRefused(Exception):
    """Nothing may be delivered there. The message gives the reason and the remedy."""


@dataclass(frozen=True)
class Place:
    """A URL that was read. `host`: lower case, ASCII, without a trailing dot. `address`: None of a name."""

    url: "URL"
    host: str
    address: Address | None

    @property
    def origin(self) -> str:
        """Scheme, host and port, such as `https://example.com:443`: the key of its breaker, and what errors name.

        Paths are never shown, since for many services they are the secret.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.url.scheme}://{host}:{self.url.port}"


@dataclass(frozen=True)
class AllowedAddresses:
    """Addresses that may be reached although they are not public."""

    networks: tuple[Network, ...]
    names: frozenset[str]


def problem_with(url: str) -> str:
    """The reason why events may not be delivered to `url`, for a form. Empty if they may, as far as this can be known
    without looking up its name.
    """
    try:
        reachable(url)
    except AddressRefused as refused:
        return str(refused)
    return ""


def origin_of(url: str) -> str:
    """The part of a URL that may be shown; empty if deliveries never go to such a URL."""
    try:
        return read(url).origin
    except AddressRefused:
        return ""


def read(url: str) -> Place:
    """Read a URL. Raises: AddressRefused when nothing is ever delivered to such a one."""
    if len(url) > LONGEST_URL or UNPRINTABLE.search(url):
        raise AddressRefused(f"the URL is longer than {LONGEST_URL} characters, or has spaces or backslashes in it")
    from yarl import URL  # the models need the length of a URL alone

    try:
        parsed = URL(url)
        port = parsed.port
    except ValueError:  # its message quotes the URL
        raise AddressRefused("that is not a URL; one looks like https://example.com/hooks/backup") from None
    if parsed.scheme not in SCHEMES:
        other = f", not with {parsed.scheme!r}" if parsed.scheme else ""
        raise AddressRefused(f"a URL begins with http:// or https://{other}")
    if "@" in parsed.raw_authority:
        raise AddressRefused(
            "a user name or password in a URL is shown to everyone who may see the endpoint: remove it"
        )
    if not parsed.raw_host:
        raise AddressRefused("the URL names no host")
    if not port:
        raise AddressRefused("nothing listens at port 0")
    host = parsed.raw_host.lower()
    return Place(parsed.with_fragment(None), host.rstrip("."), _literal(host))


def _literal(host: str) -> Address | None:
    """The address that a host is written as; None if it is a name."""
    try:
        address = ip_address(host)
    except ValueError:
        pass
    else:
        if getattr(address, "scope_id", None):
            raise AddressRefused("an address with a zone (%) is on one of our networks")
        return address
    if len(host) <= LONGEST_NAME and ODD_NUMBER.search(host):
        raise AddressRefused(f"{host} is a number that may mean any address; write an address as 192.0.2.7")
    if len(host) > LONGEST_NAME or not NAME.fullmatch(host):
        raise AddressRefused(f"{host[:LONGEST_NAME]!r} is not a host name")
    return None


def reachable(url: str) -> Place:
    """Read a URL, and check it as far as is possible without looking up its name. Raises: AddressRefused."""
    place = read(url)
    if place.address is not None:
        refuse_addresses(place.host, [place.address])
    elif place.host in allowed().names:
        return place
    elif place.host == "localhost" or place.host.endswith(".localhost"):
        raise AddressRefused(f"{place.host} is this host{_HINT}")
    return place


_HINT = "; exceptions are listed in CALLBACKS_ALLOWED (BACKUPSCHED_CALLBACKS_ALLOWED)"


def refuse_addresses(host: str, addresses: Iterable[Address | str]) -> None:
    """Raises: AddressRefused when any of `addresses`, which `host` has, is neither public nor allowed, unless the host
    is."""
    by_name = host.lower().rstrip(".") in allowed().names
    for address in map(ip_address, addresses):
        plain = unmapped(address)
        networks = [each for each in allowed().networks if plain in each]
        if special_addresses.is_never_public(plain):
            may = any(special_addresses.is_of_guarded(each) for each in networks)
        else:
            may = by_name or is_public(plain) or bool(networks)
        if not may:
            which = f"{address}" if host == str(address) else f"{host} has the address {address}, which"
            raise AddressRefused(f"{which} is not public{_HINT}")


def allowed() -> AllowedAddresses:
    """The value of the setting CALLBACKS_ALLOWED. Raises: ImproperlyConfigured for an entry that is not a network or
    host.
    """
    return _allowed(tuple(getattr(settings, "CALLBACKS_ALLOWED", ())))


@lru_cache(maxsize=8)
def _allowed(entries: tuple[str, ...]) -> AllowedAddresses:
    networks: list[Network] = []
    names: set[str] = set()
    for entry in entries:
        try:
            networks.append(ip_network(entry.strip("[]"), strict=False))
        except ValueError:
            if "/" in entry or not (name := _as_name(entry)):
                raise ImproperlyConfigured(
                    f"CALLBACKS_ALLOWED has {entry!r}, which is neither a network, such as 10.1.0.0/16, nor a host"
                ) from None
            names.add(name)
    return AllowedAddresses(tuple(networks), frozenset(names))


def _as_name(entry: str) -> str:
    from yarl import URL

    try:
        name = (URL.build(scheme="http", host=entry.rstrip(".")).raw_host or "").lower()
    except ValueError:
        return ""
    return name if NAME.fullmatch(name) else ""
