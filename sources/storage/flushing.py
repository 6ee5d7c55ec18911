"""Has the kernel write to disk what programs have written: rclone leaves that to it, which takes half a minute."""

import ctypes
import os
import threading
from pathlib import Path

from sources.processes.runner import POLL_SECONDS, StopSignal
from sources.storage.rclone import Stopped


def flush(folder: Path, stop: StopSignal) -> None:
    """Wait until all that was written to the file system of `folder` is on its disk.

    Raises: OSError, also when the disk did not take what was written before (Linux, syncfs(2)); Stopped.
    """
    failures: list[OSError] = []

    def work() -> None:
        try:
            _flush(folder)
        except OSError as error:
            failures.append(error)

    at_work = threading.Thread(target=work, daemon=True)  # there may be gigabytes to write
    at_work.start()
    while at_work.is_alive():
        if stop.is_set():
            raise Stopped
        at_work.join(POLL_SECONDS)
    for failure in failures:
        raise failure


def _flush(folder: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):  # as on macOS
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        if libc.syncfs(opened):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(opened)
