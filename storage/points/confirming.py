"""Compares files on a server with the files that they were copied from, as rclone does right after each copy: by size,
and by a digest that both sides have. The server may have stored an altered file, and an rclone that was killed, or
hung, has not reported it.

Files of an encrypted repository are compared by the digests of their encrypted contents (`cryptcheck`), if the server
has digests.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from external.processes.rows import row_of, texts
from storage.places.location import Location
from storage.places.rclone import StorageFailed
from storage.points.moving import LEAST_RATE, TransferProgress
from storage.points.store import Store

AT_ONCE = 8
"""The number of files that rclone reads at once by default."""
BY_SIZE_ALONE = "No common hash found"
"""rclone's message if the two sides have no kind of digest in common. A copy is not compared then, either."""


def confirmed(
    store: Store, source: str, location: Location, path: str, sizes: Mapping[str, int], *how: str, **watched: Any
) -> set[str]:
    """The paths of the files in a folder of the repository at `location` that equal those in `source`, an argument of
    rclone. `sizes`: the files to compare (path → bytes); `store` runs rclone, with the options `how` and parameters of
    `Rclone.run`. Raises: StorageFailed, StorageStopped.
    """
    read = min(sum(sizes.values()), AT_ONCE * max(sizes.values(), default=0))
    # rclone reports nothing until it has read a whole file, however slowly; it closes silent connections itself
    patient = replace(store, stall_timeout=store.stall_timeout + read / LEAST_RATE)
    verb = "cryptcheck" if location.is_encrypted and _has_digests(store, location) else "check"
    equal, problems = list[str](), dict[str, str]()
    done = TransferProgress(clock=lambda: 0.0)  # no bytes are counted here, so there is no rate to check

    def take(line: str) -> None:
        if not done.take(line):
            equal.append(line)

    try:
        patient.with_paths(
            sizes, verb, "--one-way", "--match=-", "--stats=5s", "--stats-log-level=ERROR", *how,
            source, location.at(path), on_line=take, sign_of_life=done, problems=problems, **watched,
        )  # fmt: skip
    except StorageFailed as error:
        if BY_SIZE_ALONE not in str(error):
            raise
    return {each for each in equal if each in sizes and each not in problems}


def _has_digests(store: Store, location: Location) -> bool:
    lines: list[str] = []
    store.run("backend", "features", location.outside, on_line=lines.append)
    return bool(texts(row_of("".join(lines)) or {}, "Hashes"))
