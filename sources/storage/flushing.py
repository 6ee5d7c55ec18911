"""Has the kernel write to disk what programs have written: rclone leaves that to it, which takes half a minute."""

import ctypes
import os
import threading
from collections.abc import Collection
from pathlib import Path

from sources.processes.runner import POLL_SECONDS, StopSignal
from sources.storage.rclone import Stopped


def flush(folder: Path, stop: StopSignal, since: Collection[int] = ()) -> None:
    """Wait until all that was written to the file system of `folder` is on its disk.

    `since`: descriptors that were opened before. Linux says what a disk did not take to each that is open by then, and
    of those that are opened later to the first one alone: that may be another run's, which ends at the same time.

    Raises: OSError, also when the disk did not take what was written before (Linux, syncfs(2)); Stopped.
    """
    failures: list[OSError] = []

    def work() -> None:
        try:
            _flush(folder, since)
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


def _flush(folder: Path, since: Collection[int]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):  # as on macOS
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        device = os.fstat(opened).st_dev
        for each in (*(each for each in since if os.fstat(each).st_dev == device), opened):
            if libc.syncfs(each):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(opened)
