"""Wake-on-LAN: the magic packet (AMD, Magic Packet Technology, 1995): FF six times, then the MAC sixteen times.

A packet never implies that the source is up: whoever sends one asks again.
"""

import logging
from datetime import datetime, timedelta

import wakeonlan

from sources.models import Policy, Source

log = logging.getLogger(__name__)


def may_wake(source: Source, policy: Policy, now: datetime) -> bool:
    """Whether to send a packet at `now`: allowed by the source, else its policy, and none sent lately."""
    allowed = policy.wake_allowed if source.wake_allowed is None else source.wake_allowed
    if not allowed or not source.mac_address:
        return False
    return source.last_woken_at is None or now - source.last_woken_at >= timedelta(seconds=policy.wake_every)


def wake(source: Source, now: datetime) -> str | None:
    """Send the packet and remember when. Returns an error message when the network refuses it."""
    try:
        wakeonlan.wake(source.mac_address, host=source.wake_address, port=source.wake_port)
    except (OSError, ValueError) as error:
        return f"cannot send a magic packet to {source.wake_address}:{source.wake_port}: {error}"
    Source.objects.filter(pk=source.pk).update(last_woken_at=now)
    log.info("sent a magic packet for %s to %s:%s", source.name, source.wake_address, source.wake_port)
    return None
