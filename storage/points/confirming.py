"""Compares files that have come to a server with those that they were copied from, as rclone does right after each
copy: by the sizes, and by digests that both sides have. A server may have taken an altered file, and an rclone that was
killed, or stood still, has reported nothing of it.

The files of an encrypted repository are compared by the digests of what its server holds (`cryptcheck`), if it has any.
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
"""Files that rclone reads at once, if it is not told otherwise."""
BY_SIZE_ALONE = "No common hash found"
"""rclone's message where the two sides have no kind of digest in common, and a copy is not compared either."""


def confirmed(
    store: Store, source: str, location: Location, path: str, sizes: Mapping[str, int], *how: str, **watched: Any
) -> set[str]:
    """The paths, of these files (path → bytes) in a folder of the repository at `location`, that equal those in
    `source`, an argument of rclone. `store`: runs rclone, with these options (`how`) and parameters of `Rclone.run`.
    Raises: StorageFailed, StorageStopped.
    """
    read = min(sum(sizes.values()), AT_ONCE * max(sizes.values(), default=0))
    # rclone reports nothing before it has read a file whole, however slowly; it ends silent connections itself
    patient = replace(store, stall_timeout=store.stall_timeout + read / LEAST_RATE)
    verb = "cryptcheck" if location.is_encrypted and _has_digests(store, location) else "check"
    equal, problems = list[str](), dict[str, str]()
    done = TransferProgress(clock=lambda: 0.0)  # no byte is counted here, so it has no pace

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
