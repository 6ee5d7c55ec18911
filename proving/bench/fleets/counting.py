"""Runs a command of the project in this process and counts its statements.

Usage: `python -m proving.bench.fleets.counting FILE COMMAND…`.

It writes to FILE their number, the peak memory of the process in kB, the seconds of the slowest one, and that one.
"""

import atexit
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backupsched.settings")

from proving.bench.fleets.statements import timed

STATUS = Path("/proc/self/status")


def most_memory() -> str:
    """The peak memory in kB since the program was started, or 0 where it is unknown. `getrusage` would include the
    parent's memory."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((line.split()[1] for line in lines if line.startswith("VmHWM:")), "0")


if __name__ == "__main__":
    _, file, *arguments = sys.argv
    counting = timed()
    sent: Any = counting.__enter__()

    def write() -> None:
        text, seconds = max(sent, key=lambda each: each[1], default=("", 0.0))
        Path(file).write_text(f"{len(sent)}\n{most_memory()}\n{seconds}\n{text}")

    atexit.register(write)
    from backupsched.command_line import main  # as its users start it

    sys.argv = ["manage.py", *arguments]
    sys.exit(main())
