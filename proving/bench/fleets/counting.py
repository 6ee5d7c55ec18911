"""A command of the project in this process, its statements counted.

Called as `python -m proving.bench.fleets.counting FILE COMMAND…`.

FILE gets their number, the most memory that the process had in kB, the seconds of the slowest one, and that one.
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
    """Since its program was started, which `getrusage` does not tell from what its parent had; 0 where none says so."""
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
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *arguments])
