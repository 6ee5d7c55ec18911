"""A share that has died: a mount whose server takes every question and answers none.

As on a dead NFS server, whatever touches it sleeps in the kernel, and no signal wakes it, SIGKILL included.
"""

import os
import struct
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from tests.fuse import mounted, serve


def dead_mount(directory: Path) -> AbstractContextManager[Path]:
    """Mount a dead share on `directory` until the block ends. Skips the test where that is not permitted."""
    return mounted(__name__, directory)


def swallow(device: int) -> None:
    _length, _opcode, number = struct.unpack_from("<IIQ", os.read(device, 1 << 17))
    # FUSE 7.19: no options
    os.write(device, struct.pack("<IiQ IIIIHHI", 40, 0, number, 7, 19, 4096, 0, 10, 10, 4096))
    while True:
        os.read(device, 1 << 17)


if __name__ == "__main__":
    serve(sys.argv[1], swallow)
