"""Wake-on-LAN: the magic packet (AMD, Magic Packet Technology, 1995): FF six times, then the MAC sixteen times.

A packet never implies that the source is up: after one it is asked again.
"""

import asyncio
import logging
from datetime import datetime, timedelta

import wakeonlan
from django.db import Error
from django.db.models import F

from jobs import decisions
from jobs.clock import database_clock
from jobs.outcomes import Claimed, Unavailable
from jobs.worker.database_threads import ask_database
from sources.availability import wake_networks
from sources.models import Policy, Source
from sources.network import contact

log = logging.getLogger(__name__)

LOOKUP_SECONDS = 5.0
"""To look up a broadcast address that is given as a name. A broadcast that does not know where to is not worth more."""


async def wake_or_wait(record: Claimed, source: Source, policy: Policy, reason: str) -> Unavailable:
    """What becomes of a record whose source is silent for `reason`: a magic packet is sent if that is allowed."""
    broadcast = await broadcast_address(source)  # here, where a slow look-up holds up nothing else
    return await ask_database(record.queue, _after_silence, record, source, policy, reason, broadcast)


def _after_silence(record: Claimed, source: Source, policy: Policy, reason: str, broadcast: str | None) -> Unavailable:
    now = database_clock()
    # another policy of the same source may have woken it while this question hung
    source.refresh_from_db(fields=["last_woken_at"])
    waking_for = (now - source.last_woken_at).total_seconds() if source.last_woken_at else policy.wake_wait
    if 0 <= waking_for < policy.wake_wait:
        reason = f"{reason}; it was sent a magic packet {waking_for:.0f} s ago"
        return Unavailable(reason, max(1.0, policy.wake_wait - waking_for), first_in_line=True)
    if not may_wake(source, policy, now):
        return Unavailable(reason, policy.recheck_after)
    if error := wake(source, broadcast, now):
        return Unavailable(f"{reason}; {error}", policy.recheck_after)
    text = f"sent a magic packet for {source} to {source.wake_address}:{source.wake_port}"
    decisions.doing("woken", text, record=record, now=now)
    return Unavailable(f"{reason}; sent a magic packet", policy.wake_wait, first_in_line=True)


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
