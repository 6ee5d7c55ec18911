"""The largest size of any manifest: gzip packs a thousand bytes into one, and every path costs space for each of its
folders.
"""

import io
from collections.abc import Iterator
from typing import IO

LONGEST_LINE, LONGEST_PATH, MOST_PARTS = 2**16, 4_096, 255
"""Bytes of a line and of a path, and the number of names in a path: no more than file systems take."""
TOO_DEEP = "its path has more than 4,096 bytes or 255 names: move it up, or shorten names"
SHOWN = 200
UNPACKED, AT_LEAST = 100, 64 * 2**20
"""An unpacked manifest may be this many times as large as the packed one, plus these bytes. The scheduler's own are
five times as large.
"""


class OutOfBounds(ValueError):
    """A line, or the whole manifest, is too long. The message names it."""


def lines_of(unpacked: IO[bytes], packed: int) -> Iterator[bytes]:
    """The lines of a file that has `packed` bytes before it is unpacked. Raises: OutOfBounds."""
    left, begun = UNPACKED * packed + AT_LEAST, b""
    while block := unpacked.read(LONGEST_LINE):
        left -= len(block)
        if left < 0:
            raise OutOfBounds(f"it unpacks to more than {UNPACKED} times its {packed:,} bytes")
        lines = io.BytesIO(begun + block).readlines()  # a call for each line takes longer than all the rest
        begun = lines.pop() if not lines[-1].endswith(b"\n") else b""
        if max(map(len, (begun, *lines))) > LONGEST_LINE:
            raise OutOfBounds(f"it holds a line of more than {LONGEST_LINE:,} bytes")
        yield from lines
    if begun:
        yield begun


def is_nameable(path: str) -> bool:
    """True if a manifest may name this path."""
    if len(path) < MOST_PARTS:
        return True
    if path.count("/") >= MOST_PARTS:
        return False
    return len(path) * 4 <= LONGEST_PATH or len(path.encode("utf-8", "surrogatepass")) <= LONGEST_PATH


def shortened(path: str) -> str:
    """The beginning of a path that no manifest may name, which one may."""
    begin = path.encode("utf-8", "surrogatepass")[: LONGEST_PATH // 8].decode("utf-8", "ignore")
    return "/".join(each for each in begin.split("/") if each.strip("."))[:SHOWN] + "…"
