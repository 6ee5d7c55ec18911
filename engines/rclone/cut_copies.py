"""Copies that an encrypted repository cannot read back: more of a file came than its server had announced, and the
server of the repository (WebDAV) cut the copy at the announced size, in the middle of a block. rclone reports success.

A cut block was filled from beyond the announced end, so more bytes came than the copies have. Only then the last byte
of each copy is read.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engines.rclone.comparing import Item, is_wanted
from engines.rclone.transfer import Transfer
from storage import layout
from storage.places.rclone import LISTED, expected
from storage.places.servers import DAMAGED_OR_FOREIGN
from storage.points.batches import OF_A_LIST, batches
from storage.points.moving import TransferProgress
from storage.points.store import Store, path_list

BLOCK, OF_A_BLOCK, OF_A_FILE = 2**16, 16, 32
"""Bytes that rclone encrypts together, and that it adds to each block and to each file. A copy that ends with a whole
block can be read.
"""
PIECE = 2**20
"""Nextcloud gets a file in pieces of 10 of these bytes, or of as many as its settings say. rclone reads nothing beyond
the announced end of a file where a piece ends as well, so no more bytes come than its copy has.
"""
Names = dict[str, tuple[str, int]]
"""Name in a folder of the run → path of the source, and the bytes of the encrypted copy."""
CUT = "it was longer than its source reported right before, and its encrypted copy could not be read back"


def leave_out(transfer: Transfer) -> None:
    """Delete such copies, and count their files as not copied. Raises: the exceptions of stores."""
    run = transfer.run
    if not run.task.location.is_encrypted or run.task.location.directory:
        return  # what is written to this host's disk has no announced end
    size, others = 0, defaultdict[str, Names](dict)
    for item, encrypted in _brought(transfer):
        if item.entry.stored:
            others[item.entry.folder][item.entry.stored] = (
                item.path,
                encrypted,
            )  # rclone gives no statistics for a single order
        else:
            size += encrypted
            if encrypted % PIECE == 0:
                others[item.entry.folder][item.path] = item.path, encrypted
    for folder, names in others.items():
        _leave_out(transfer, folder, names)
    if sum(came for *_, came in transfer.fetched) != size:
        for folder, file, came in transfer.fetched:
            listed = set(Path(file).read_bytes().split(b"\0"))
            there = {
                item.path: (item.path, encrypted)
                for item, encrypted in _brought(transfer)
                if item.entry.folder == folder and not item.entry.stored and _as_listed(item.path) in listed
            }
            if sum(encrypted for _, encrypted in there.values()) != came:
                _leave_out(transfer, folder, there)


def _brought(transfer: Transfer) -> Iterator[tuple[Item, int]]:
    """The files that have come, with the bytes of their encrypted copies."""
    for item, arrived in transfer.brought:
        if arrived and is_wanted(item):
            yield item, OF_A_FILE + arrived[0] + -(-arrived[0] // BLOCK) * OF_A_BLOCK


def _as_listed(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def _leave_out(transfer: Transfer, folder: str, names: Names) -> None:
    run, sizes = transfer.run, {name: encrypted for name, (_, encrypted) in names.items()}
    cut = _unreadable(transfer.store, f"{layout.files_path(run.task.folder)}/{folder}", sizes)
    transfer.problems.by_path |= dict.fromkeys((names[each][0] for each in cut), CUT)
    run.leave_out({f"{folder}/{each}" for each in cut})


def _unreadable(store: Store, at: str, sizes: Mapping[str, int]) -> list[str]:
    """The files, of these in a folder (name → bytes), that cannot be decrypted: neither at their end, nor, since not
    every server gives a part of a file, when they are read as a whole. Raises: StorageFailed, also if far more comes
    than they have; StorageStopped.
    """
    names = list(sizes)
    read = ("cat", store.location.at(at), "--discard", "--stats=5s", "--stats-log-level=ERROR")
    for how in (("--tail=1",), ()):
        problems, done = dict[str, str](), TransferProgress()
        watched: dict[str, Any] = {"on_line": done.take, "sign_of_life": done, "problems": problems}
        for some in batches(names, OF_A_LIST):
            with path_list(some) as file:
                most = expected(sum(sizes[each] for each in some))
                store.run(*read, *how, LISTED + file, most=most, **watched)
        names = [each for each in names if DAMAGED_OR_FOREIGN in problems.get(each, "")]
        if not names:
            break
    return names
