"""Flushes a folder where syncfs(2) answers with an error: `python in_a_sandbox.py CHECKOUT FOLDER ERRNO`.
Prints why failed writes are not told there."""

import ctypes
import os
import struct
import sys
from pathlib import Path
from threading import Event

SYNCFS = {"x86_64": 306, "aarch64": 267}
SET_NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ANSWER, ALLOW = 0x00050000, 0x7FFF0000


def refuse(call: int, code: int) -> None:
    """Let a system call fail in this process from now on."""
    rules = ((LOAD, 0, 0, 0), (EQUAL, 0, 1, call), (RETURN, 0, 0, ANSWER | code), (RETURN, 0, 0, ALLOW))
    written = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(written)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SET_SECCOMP, FILTER, program, 0, 0):
        sys.exit(f"no filter here: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    from storage.folders import flushing

    refuse(SYNCFS[os.uname().machine], int(sys.argv[3]))
    flushing.flush(Path(sys.argv[2]), Event())
    sys.stdout.write(flushing.why_untold())
