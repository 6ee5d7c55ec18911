"""A host that is asleep until it receives a magic packet, then becomes the given program.

python sleeper.py ADDRESS UDP_PORT MAC -- PROGRAM ARG…
"""

import os
import socket
import sys
from collections.abc import Sequence


def magic_packet(mac: str) -> bytes:
    """The payload that wakes a network card: FF six times, then its address sixteen times."""
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16


def sleep_until_woken(address: str, port: int, mac: str) -> None:
    """Block until the magic packet for `mac` arrives; other packets are ignored, as a network card ignores them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ears:
        ears.bind((address, port))
        _say(f"asleep at {address}:{port}, waiting for a magic packet for {mac}")
        while magic_packet(mac) not in ears.recv(4096):
            pass


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    address, port, mac, _, *argv = arguments
    sleep_until_woken(address, int(port), mac)
    _say("woken")
    os.execv(argv[0], argv)  # noqa: S606 - it becomes the host


if __name__ == "__main__":
    main(sys.argv[1:])
