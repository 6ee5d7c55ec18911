"""An address for each demo host: its own in 127.0.0.0/8 where the system has that, else ports of 127.0.0.1."""

import socket
from functools import cache
from zlib import crc32

from django.conf import settings

SFTP_PORT = 2022


@cache
def has_loopback_network() -> bool:
    """Whether any 127.x address can be bound here (Linux: yes; macOS: no)."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.77.0.1", 0))
        except OSError:
            return False
    return True


def address_of(number: int) -> tuple[str, int]:
    """Address and port for host `number` (from 1): free at this moment. Demos of two directories, which may be started
    at the same moment, have addresses of their own."""
    if has_loopback_network():
        block = crc32(str(settings.VAR_DIR).encode()) % 256
        address = f"127.{77 + number // 250}.{block}.{number % 250 + 1}"
        return address, free_port(address, SFTP_PORT)
    return "127.0.0.1", free_port("127.0.0.1", 0)


def free_port(address: str, wanted: int) -> int:
    """`wanted` if it is free on `address`, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise OSError(f"no free port on {address}")
