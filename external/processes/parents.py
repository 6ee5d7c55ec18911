"""The bond of a process to the one that starts it. Linux only, elsewhere it does nothing."""

import ctypes
import multiprocessing
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let this process get SIGTERM when its parent ends, however that ends. For `preexec_fn`."""
    _signalled_at_the_end(signal.SIGTERM)


def die_with_parent() -> None:
    """Kill this process, which `multiprocessing` has forked, when its parent ends, however that ends; at once, if that
    has ended before it was asked for. "Its parent" is the thread that forked it.
    """
    parent = multiprocessing.parent_process()
    if parent and _signalled_at_the_end(signal.SIGKILL) and os.getppid() != parent.pid:
        os.kill(os.getpid(), signal.SIGKILL)


def _signalled_at_the_end(number: signal.Signals) -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) == 0)
