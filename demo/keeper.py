"""Run one program and end it, with all its descendants, when the demo ends, however that happens.

    python -m demo.keeper PROGRAM ARG…

The demo holds the other end of this process's standard input: when the demo is gone, even killed, that end is closed. A
process whose parent has died becomes a child of this one (on Linux; elsewhere those seen before are ended), so
processes that the program starts while it is being ended are found, too: by id, and no others.
"""

import ctypes
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

LOOK_EVERY_SECONDS = 0.3
GRACE_SECONDS = 8.0
"""Seconds for the program to end its children itself."""
LEFTOVER_SECONDS = 2.0
"""Seconds for an abandoned child to end by itself, before it is killed."""
KILLING_SECONDS = 5.0
PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """The program and its family. `stopping` is set by SIGTERM."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.stopping = False
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
        self.family: set[psutil.Process] = set()

    def keep(self) -> int:
        """Watch until the program ends or has to. Returns its exit code."""
        while self.program.poll() is None and not self.stopping:
            self.remember()
            with suppress(InterruptedError):
                # the demo never writes: readable means closed
                self.stopping |= bool(select.select([sys.stdin], [], [], LOOK_EVERY_SECONDS)[0])
        self.end()
        return self.program.wait()

    def remember(self) -> None:
        """Note who descends from this process now, the program apart."""
        with suppress(psutil.Error):
            found = psutil.Process().children(recursive=True)
            self.family.update(process for process in found if process.pid != self.program.pid)

    def end(self) -> None:
        """SIGTERM to the program, which ends its children; then SIGTERM and SIGKILL to each that is left."""
        self.remember()
        self.program.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.program.wait(GRACE_SECONDS)
        self.program.kill()
        self.program.wait()
        self.remember()
        for member in self.family:
            with suppress(psutil.NoSuchProcess):
                member.terminate()
        psutil.wait_procs(self.family, LEFTOVER_SECONDS)
        deadline = time.monotonic() + KILLING_SECONDS
        while (left := self.living()) and time.monotonic() < deadline:
            for member in left:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(left, LOOK_EVERY_SECONDS)

    def living(self) -> list[psutil.Process]:
        """The members of the family that still live, newcomers included."""
        self.remember()
        return [member for member in self.family if member.is_running()]

    def stop(self, *_: object) -> None:
        self.stopping = True


def main(argv: Sequence[str]) -> int:
    keeper = Keeper(argv)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, keeper.stop)
    return keeper.keep()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
