"""How often somebody may ask. Counted in the cache `limits`, which each web process has of its own.

With n web processes a limit is up to n times as high; what protects tokens and codes is their length, not this.
"""

import ipaddress
import time
from dataclasses import dataclass

from django.core.cache import caches

from jobs.api.errors import ApiError, too_many

PREFIX_OF_ONE_IPV6_NETWORK = 64
"""Whoever has one IPv6 address usually has all of its /64."""


@dataclass(frozen=True)
class Limit:
    """At most `count` in `seconds`, per key, in windows that begin at multiples of `seconds`."""

    name: str
    count: int
    seconds: int

    def spend(self, key: str, now: float | None = None) -> None:
        """Count one. Raises: ApiError (429) when it is one too many."""
        instant = _present() if now is None else now
        counter = self._counter(key, instant)
        counts = caches["limits"]
        counts.add(counter, 0, self.seconds)
        try:
            number = counts.incr(counter)
        except ValueError:  # it expired, or was culled, between the two
            return
        if number > self.count:
            raise self._refusal(instant)

    def check(self, key: str, now: float | None = None) -> None:
        """Count nothing. Raises: ApiError (429) when the next one would be one too many."""
        instant = _present() if now is None else now
        if caches["limits"].get(self._counter(key, instant), 0) >= self.count:
            raise self._refusal(instant)

    def _counter(self, key: str, now: float) -> str:
        return f"{self.name}:{key}:{int(now // self.seconds)}"

    def _refusal(self, now: float) -> ApiError:
        return too_many(self.seconds - now % self.seconds)


def _present() -> float:
    return time.time()


def network_of(remote: str) -> str:
    """The key of a sender's address: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        address = ipaddress.ip_address(remote)
    except ValueError:  # a socket of the file system has no address
        return "local"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        prefix = (int(address), PREFIX_OF_ONE_IPV6_NETWORK)
        return str(ipaddress.ip_network(prefix, strict=False).network_address)
    return str(address)
