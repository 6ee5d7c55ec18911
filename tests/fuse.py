"""File systems of tests: real mounts (FUSE), each served by a process of its own, with which it dies: a test that hung
on it itself could end nothing."""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

DETACH, MOUNTED = 2, "mounted"


@contextmanager
def mounted(module: str, place: Path, *arguments: str) -> Iterator[Path]:
    """Let a module of tests `serve` its file system on `place` until the block ends: it is run as a program with the
    place and the arguments. Skips the test where that is not permitted."""
    place.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", module, str(place), *arguments]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        if server.stdout.readline().strip() != MOUNTED:
            pytest.skip("this account may not mount a FUSE file system here")
        try:
            yield place
        finally:
            server.stdin.close()
            server.wait(PATIENCE)


def serve(place: str, answer: Callable[[int], None], *options: str, flags: int = 0) -> None:
    """Mount, say so, let `answer` answer the questions that the device has, until standard input is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        sys.exit(str(error))
    usual = (f"fd={device}", "rootmode=40000", f"user_id={os.getuid()}", f"group_id={os.getgid()}")
    if libc.mount(b"of a test", place.encode(), b"fuse", flags, ",".join((*usual, *options)).encode()) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    threading.Thread(target=answer, args=[device], daemon=True).start()
    sys.stdout.write(MOUNTED + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    libc.umount2(place.encode(), DETACH)
