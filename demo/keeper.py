"""Runs one program and ends it, with all its descendants, when the demo ends, however that ended.

    python -m demo.keeper PROGRAM ARG…

The demo holds the other end of this process's standard input: when the demo is gone, even killed, that end is closed.
Descendants are remembered while they live, so those whose own parent died are still ended: by id, nothing else.
"""

import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import psutil

LOOK_EVERY_SECONDS = 0.3
GRACE_SECONDS = 8.0
"""For the program to end its children by itself; honcho gives them 5 s."""
LEFTOVER_SECONDS = 2.0


class Keeper:
    """The program and its family. `stopping` is set by SIGTERM."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.stopping = False
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
        """Note who descends from the program now."""
        with suppress(psutil.Error):
            self.family.update(psutil.Process(self.program.pid).children(recursive=True))

    def end(self) -> None:
        """SIGTERM to the program, which ends its children; then SIGTERM and SIGKILL to whoever is left."""
        self.remember()
        self.program.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.program.wait(GRACE_SECONDS)
        self.program.kill()
        for member in self.family:
            with suppress(psutil.NoSuchProcess):
                member.terminate()
        _, alive = psutil.wait_procs(self.family, LEFTOVER_SECONDS)
        for member in alive:
            with suppress(psutil.NoSuchProcess):
                member.kill()

    def stop(self, *_: object) -> None:
        self.stopping = True


def main(argv: Sequence[str]) -> int:
    keeper = Keeper(argv)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, keeper.stop)
    return keeper.keep()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
