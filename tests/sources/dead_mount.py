"""A share that has died: a real mount (FUSE) whose server takes every question and answers none.

As on a dead NFS server, whatever touches it sleeps in the kernel, and no signal wakes it, SIGKILL included. Its server
is a process of its own, with which the mount dies: a test that hung on it itself could end nothing.
"""

import ctypes
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

DETACH = 2
MOUNTED = "mounted"


@contextmanager
def dead_mount(directory: Path) -> Iterator[None]:
    """Mount a dead share on `directory` until the block ends. Skips the test where that is not permitted."""
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.sources.dead_mount", str(directory)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        if server.stdout.readline().strip() != MOUNTED:
            pytest.skip("this account may not mount a FUSE file system here")
        try:
            yield
        finally:
            server.stdin.close()
            server.wait(PATIENCE)


def serve(directory: str) -> None:
    """Mount, say so, swallow questions until standard input is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        sys.exit(str(error))
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"dead", directory.encode(), b"fuse", 0, options.encode()) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    _length, _opcode, number = struct.unpack_from("<IIQ", os.read(device, 1 << 17))
    # FUSE 7.19: no options
    os.write(device, struct.pack("<IiQ IIIIHHI", 40, 0, number, 7, 19, 4096, 0, 10, 10, 4096))
    threading.Thread(target=_swallow, args=[device], daemon=True).start()
    sys.stdout.write(MOUNTED + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    libc.umount2(directory.encode(), DETACH)


def _swallow(device: int) -> None:
    while True:
        os.read(device, 1 << 17)


if __name__ == "__main__":
    serve(sys.argv[1])
