"""Runs the command of a hook as a child, and ends all that it started when the worker is killed. Standard library only.

Run as `python -I -S keeper.py PROGRAM ARGUMENT…`, by `external.processes.runner`, in a separate process group. When a
worker is killed the kernel kills the program that its runner started, and that alone: a script's children would
continue. So this one asks for a signal instead, and kills its group. A polite signal to the group is left to the
command.
"""

import ctypes
import os
import signal
import subprocess
import sys
from typing import Any

PR_SET_PDEATHSIG = 1
WORKER_IS_GONE = signal.SIGUSR1
CANNOT_START = 126


def end_all(*_: Any) -> None:
    os.killpg(0, signal.SIGKILL)


def main(argv: list[str]) -> int:
    signal.signal(WORKER_IS_GONE, end_all)
    signal.signal(signal.SIGTERM, lambda *_: None)  # a function, unlike SIG_IGN, is not the command's to inherit
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(WORKER_IS_GONE), 0, 0, 0)
    try:
        code = subprocess.call(argv)
    except OSError as error:
        sys.stderr.write(f"{argv[0]} cannot be started: {error.strerror}\n")
        return CANNOT_START
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
