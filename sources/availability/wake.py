"""Wake-on-LAN: the magic packet (AMD, Magic Packet Technology, 1995): FF six times, then the MAC sixteen times.

A packet never implies that the source is up: after one it is asked again.
"""

import asyncio
import logging
from datetime import datetime, timedelta

import wakeonlan
from django.db import Error
from django.db.models import F

from sources.availability import wake_networks
from sources.models import Policy, Source
from sources.network import contact

log = logging.getLogger(__name__)

LOOKUP_SECONDS = 5.0
"""To look up a broadcast address that is given as a name. A broadcast that does not know where to is not worth more."""


def may_wake(source: Source, policy: Policy, now: datetime) -> bool:
    """Whether to send a packet at `now`: allowed by the source, else its policy, and none sent lately.

    One of the future (a clock was set back) holds up the next one for twice `wake_every` at the most.
    """
    allowed = policy.wake_allowed if source.wake_allowed is None else source.wake_allowed
    if not allowed or not source.mac_address:
        return False
    return source.last_woken_at is None or abs(now - source.last_woken_at) >= timedelta(seconds=policy.wake_every)


async def broadcast_address(source: Source) -> str | None:
    """Where its packet goes, looked up if it is a name; None: that is not found in time."""
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return (await contact.addresses_of(source.wake_address))[0]
    except OSError:  # a timeout is one
        return None


def wake(source: Source, address: str | None, now: datetime) -> str | None:
    """Send the packet to its `broadcast_address` and remember when. Returns an error message when it cannot be sent.

    Never raises: a source that cannot be woken is a silent source.
    """
    try:
        if not 1 <= source.wake_port <= 65535:  # the system would take it modulo 65536
            raise ValueError("that is no port")
        if address is None:
            raise ValueError("no such name")
        wake_networks.check(address)
        wakeonlan.wake(_plain(source.mac_address), host=address, port=source.wake_port)
    except (OSError, ValueError) as error:
        reason = contact.reason(error) if isinstance(error, OSError) else error
        return f"cannot send a magic packet to {source.wake_address}:{source.wake_port}: {reason}"
    log.info("sent a magic packet for %s to %s:%s", source.name, source.wake_address, source.wake_port)
    try:
        remembered = Source.objects.filter(pk=source.pk).update_unless_locked(last_woken_at=now, wakes=F("wakes") + 1)
    except Error:
        log.exception("cannot remember that %s was sent a magic packet: the next one may come too soon", source.name)
    else:
        if not remembered:
            log.info("%s is being edited: the next magic packet to it may come too soon", source.name)
    return None


def _plain(mac_address: str) -> str:
    """The twelve digits alone. Raises: ValueError for anything but a MAC address."""
    digits = "".join(sign for sign in mac_address if sign not in ":-. ")
    if len(digits) != 12:
        raise ValueError(f"{mac_address!r} is not a MAC address")
    bytes.fromhex(digits)
    return digits
