"""Limits on how often an account or a sender may ask, in windows that begin at multiples of their length."""

import hashlib
import ipaddress
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from django.core.cache import caches
from django.db import connection

from operations.models import RateCount

PREFIX_OF_ONE_IPV6_NETWORK = 64
"""A sender with one IPv6 address usually has all of its /64."""

COUNT = """
INSERT INTO operations_ratecount AS counted (key, number, ends_at)
VALUES (%s, %s, %s)
ON CONFLICT (key) DO UPDATE SET number = counted.number + EXCLUDED.number
RETURNING number
"""


class TooMany(Exception):
    """The limit is reached. `seconds`: the time until something may be tried again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many: try again in {seconds:.0f} s")
        self.seconds = max(1, math.ceil(seconds))


@dataclass(frozen=True)
class Limit:
    """A limit of `count` in `seconds`, per key, for all processes together, which count in one row."""

    name: str
    count: int
    seconds: int

    def spend(self, key: str, now: float | None = None) -> None:
        """Count one. Raises: TooMany when it is one too many."""
        instant = _present() if now is None else now
        if not self.grant(key, 1, instant):
            raise self._refusal(instant)

    def grant(self, key: str, wanted: int, now: float | None = None) -> int:
        """Count `wanted`; return the number within the limit."""
        instant = _present() if now is None else now
        counted = self._add(self._counter(key, instant), wanted, instant)
        return max(0, min(wanted, self.count - counted + wanted))

    def check(self, key: str, now: float | None = None) -> None:
        """Count nothing. Raises: TooMany when the next one would be one too many."""
        instant = _present() if now is None else now
        if self._number(self._counter(key, instant)) >= self.count:
            raise self._refusal(instant)

    def is_spent(self, key: str) -> bool:
        """True if the next one would be one too many."""
        return self._number(self._counter(key, _present())) >= self.count

    def forget(self, key: str) -> None:
        """Count from zero again."""
        RateCount.objects.filter(pk=self._counter(key, _present())).delete()

    def _add(self, counter: str, number: int, now: float) -> int:
        ends_at = datetime.fromtimestamp((now // self.seconds + 1) * self.seconds, UTC)
        with connection.cursor() as cursor:
            cursor.execute(COUNT, [counter, number, ends_at])
            return int(cursor.fetchone()[0])

    def _number(self, counter: str) -> int:
        return RateCount.objects.filter(pk=counter).values_list("number", flat=True).first() or 0

    def _counter(self, key: str, now: float) -> str:
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        return f"{self.name}:{int(now // self.seconds)}:{digest}"

    def _refusal(self, now: float) -> TooMany:
        return TooMany(self.seconds - now % self.seconds)


class LimitOfOneProcess(Limit):
    """The same, counted in memory, for requests that must not cost a write: with n web processes it is up to n times as
    high.
    """

    def _add(self, counter: str, number: int, now: float) -> int:
        counts = caches["limits"]
        counts.add(counter, 0, self.seconds)
        try:
            return counts.incr(counter, number)
        except ValueError:  # it expired, or was culled, between the two
            return 0

    def _number(self, counter: str) -> int:
        return int(caches["limits"].get(counter, 0))


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
