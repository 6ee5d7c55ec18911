"""The public addresses. Pure.

IANA's registries of special-purpose addresses, as of 2026: https://www.iana.org/assignments/iana-ipv4-special-registry
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address

NOT_PUBLIC = tuple(
    ip_network(each)
    for each in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' shared addresses; 100.100.100.200 is a metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # public by number, but every Azure machine's own host
        "169.254.0.0/16",  # link-local; 169.254.169.254 is most clouds' metadata service
        "172.16.0.0/12",
        "192.0.0.0/24",  # 192.0.0.192 is Oracle's metadata service
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4, retired
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast: Python calls it global
        "240.0.0.0/4",
        # within 2000::/3; outside it no IPv6 address is public, except for NAT64
        "2001::/23",  # Teredo, benchmarks, ORCHID
        "2001:db8::/32",
        "2002::/16",  # 6to4: any IPv4 address may hide in it
        "3fff::/20",  # documentation, newer than Python's list
    )
)
PUBLIC_IPV6 = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")
"""Its last 32 bits are the IPv4 address that a translator connects to."""


def is_public(address: Address) -> bool:
    """True if the whole internet reaches the same host by it."""
    plain = unmapped(address)
    if isinstance(plain, IPv6Address):
        if plain in NAT64:
            return is_public(IPv4Address(int(plain) & 0xFFFFFFFF))
        if plain not in PUBLIC_IPV6:
            return False
    return plain.is_global and not any(plain in network for network in NOT_PUBLIC)


def unmapped(address: Address) -> Address:
    """The IPv4 address in a mapped one: ::ffff:127.0.0.1 is 127.0.0.1."""
    return getattr(address, "ipv4_mapped", None) or address
