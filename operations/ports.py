"""Ports on this host: a free one, and the program that listens on one that is taken."""

import socket
from contextlib import suppress

import psutil


def listener_on(port: int) -> str:
    """The name and process id of the program that listens on a TCP port, such as `nginx (process 812)`; `another
    program` where the system does not show it to this account.
    """
    with suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port and each.pid:
                return f"{psutil.Process(each.pid).name()} (process {each.pid})"
    return "another program"


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
