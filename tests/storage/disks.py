"""A file system that keeps no owners, mounted for a test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from external.processes.programs import find_rclone
from tests.waiting import eventually

MOUNT = f"""#!{sys.executable}
import array, ctypes, os, socket, sys
libc = ctypes.CDLL(None)
if "-u" in sys.argv:
    sys.exit(libc.umount2(sys.argv[-1].encode(), 2))
fuse = os.open("/dev/fuse", os.O_RDWR)
how = f"fd={{fuse}},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"rclone", sys.argv[-1].encode(), b"fuse.rclone", 6, how):
    sys.exit(1)
told = socket.socket(fileno=int(os.environ["_FUSE_COMMFD"]))
told.sendmsg([bytes(1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fuse]))])
"""
"""The program that mounts for rclone, which a bare machine lacks."""


@contextmanager
def ownerless_disk(folder: Path, *how: str) -> Iterator[Path]:
    """Such a file system in `folder`; `how`: more of what rclone's mount takes. Skips the test where that is not
    permitted."""
    place, under, programs = (folder / each for each in ("disk", "under", "programs"))
    for each in (place, under, programs):
        each.mkdir(parents=True)
    (programs / "fusermount3").write_text(MOUNT)
    (programs / "fusermount3").chmod(0o755)
    (programs / "fusermount").symlink_to("fusermount3")
    usual = ("--config=", "--uid=4711", "--gid=4711", "--vfs-cache-mode=writes", f"--cache-dir={folder / 'cache'}")
    rclone = subprocess.Popen(
        (find_rclone(), "mount", str(under), str(place), *usual, *how),
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: os.path.ismount(place) or rclone.poll() is not None)
        if rclone.poll() is not None:
            pytest.skip("this account may not mount a file system of its own here")
        yield place
    finally:
        rclone.terminate()
        rclone.wait()
