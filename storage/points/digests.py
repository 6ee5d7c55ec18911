"""Digests of a copy on this host, read back by threads: hashing lets other threads run."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from external.processes.runner import POLL_SECONDS, StopSignal
from storage.points.files import digest_of, path_in
from storage.points.store import StorageStopped

THREADS = 2
TOGETHER = 100
"""Files that a thread takes at a time: a million single ones would wait in a gigabyte."""


def digests_of_copy(
    folder: Path, paths: Sequence[str], stop: StopSignal
) -> tuple[dict[str, str], list[tuple[str, OSError]]]:
    """SHA-256 in hex, by path, of the files that exist in `folder`; and the files that cannot be read, with their
    errors.

    Raises: StorageStopped.
    """
    ended = threading.Event()

    def check_not_ended() -> None:
        if ended.is_set():
            raise StorageStopped

    def read(some: Sequence[str]) -> dict[str, str]:
        digests = {}
        for path in some:
            try:
                digests[path] = digest_of(path_in(folder, path), check_not_ended)
            except FileNotFoundError:
                continue
            except OSError as error:
                unread.append((path, error))
        return digests

    threads, found, unread = ThreadPoolExecutor(THREADS), dict[str, str](), list[tuple[str, OSError]]()
    try:
        parts = [threads.submit(read, paths[at : at + TOGETHER]) for at in range(0, len(paths), TOGETHER)]
        for part in parts:
            while True:
                if stop.is_set():
                    raise StorageStopped
                with suppress(TimeoutError):
                    found |= part.result(POLL_SECONDS)
                    break
        return found, unread
    finally:
        ended.set()
        threads.shutdown(cancel_futures=True)
