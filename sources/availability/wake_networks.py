"""Networks that magic packets may go to: this host's own, and those that a setting names.

Without this limit, anyone who may change a source could make the workers send packets to any host and port.
"""

import ipaddress
import socket

import psutil
from django.conf import settings

EVERYWHERE = "255.255.255.255"
"""Broadcast on the host's own networks; no router passes it on."""


def is_allowed(address: str) -> bool:
    """True if a packet may be sent to this IP address."""
    if address == EVERYWHERE:
        return True
    found = ipaddress.ip_address(address.partition("%")[0])
    return any(found in network for network in (*settings.WAKE_NETWORKS, *own_networks()))


def check(address: str) -> None:
    """Raises: ValueError, with what to do, for an IP address that no packet may be sent to."""
    if not is_allowed(address):
        own = ", ".join(sorted(map(str, own_networks())))
        raise ValueError(
            f"{address} is in none of this host's networks ({own}): use one of their broadcast addresses or "
            f"{EVERYWHERE}, or name its network in BACKUPSCHED_WAKE_NETWORKS"
        )


def own_networks() -> set[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """The networks of the host's interfaces, as they are now."""
    found = set()
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family in (socket.AF_INET, socket.AF_INET6) and each.netmask:
                bits = int(ipaddress.ip_address(each.netmask)).bit_count()
                found.add(ipaddress.ip_network((each.address.partition("%")[0], bits), strict=False))
    return found
