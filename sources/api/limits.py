"""How often agents, and whoever has no token, may ask. `jobs/api/limits.py` counts."""

import ipaddress

from jobs.api.limits import Limit

PREFIX_OF_ONE_IPV6_NETWORK = 64
"""Whoever has one IPv6 address usually has all of its /64."""

FAILED_TOKENS = Limit("token", 20, 60)
"""Per network of the sender. A valid token is accepted all the same: behind a proxy all agents have one address."""

FAILED_CODES = Limit("code", 20, 60)
"""Per network of the sender. No code is looked at beyond it."""

REQUESTS = Limit("agent", 60, 60)
"""Per source."""

ROTATIONS = Limit("rotate", 10, 3600)
"""Per source: each is a row that stays."""

ASKED_FOR = Limit("now", 10, 3600)
"""Backups asked for, per source: each goes ahead of the whole fleet."""


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
