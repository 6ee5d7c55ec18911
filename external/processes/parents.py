"""The bond of a process to the one that starts it."""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let this process get SIGTERM when its parent ends, however that ends. For `preexec_fn`; Linux only, elsewhere it
    does nothing.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
