"""Notes in a copy on a server about files that equal those of the first repository: they were compared with them, or
rclone compared them right after it copied them. After a kill, the next copy need not compare them again: reading all
that many nights have brought may take longer than a night.

A note is a separate file, `manifests/<point>.<digest>.compared`, since nothing may be overwritten. It has 8 bytes for
each place. Anyone who can write to a repository can put one there, so a note counts only if the scheduler's database
has its digest, as it has a mark's. A note that was torn by a kill has another digest.

A noted file that is no longer there is copied again, and a kill may then cut or alter it. So it is noted as amiss
(`amiss.py`) before it is copied; that note takes precedence.
"""

import hashlib
import tempfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from storage import layout
from storage.points import amiss, known
from storage.points.batches import OF_A_LIST
from storage.points.known import OF_A_MARK
from storage.points.store import StorageFailed, Store

AT_ONCE = 2**33
"""Bytes of files that are copied, or compared, before a note is written: what is done twice after a kill."""
MOST = 2_000_000
"""Files that are noted: they take 150 MB of memory. Others are compared again."""
NUMBER = Struct(">Q")
OF_A_NOTE = range(NUMBER.size, NUMBER.size * OF_A_LIST + 1, NUMBER.size)
"""Bytes."""


@dataclass
class ComparedFiles:
    """The noted files of an assignment in a copy. `is_any_there`: True if a note may be in the repository."""

    store: Store
    folder: str
    is_any_there: bool = False
    _keys: set[int] = field(default_factory=set)

    def __contains__(self, place: str) -> bool:
        return _key(place) in self._keys

    def read(self, names: Iterable[str], points: Collection[str]) -> None:
        """Take over what runs without a point have noted. `names`: those of `manifests`; `points`: the points. Raises:
        StorageFailed, StorageStopped.
        """
        by_run = amiss.by_run(names, layout.COMPARED)
        self.is_any_there = bool(by_run)
        notes = [
            name for run, found in by_run.items() if run not in points for name in found if self._may_be_ours(name)
        ]
        if not notes:
            return
        at = f"{self.folder}/{layout.MANIFESTS}"
        sizes = self.store.sizes(at, notes)
        notes = [name for name in notes if sizes.get(name, 0) in OF_A_NOTE]
        with tempfile.TemporaryDirectory() as scratch:
            self.store.copy_out(at, scratch, notes, lambda files, size: None, problems={})  # they only save time
            for name in notes:
                with suppress(FileNotFoundError):
                    self._take(name, Path(scratch, name).read_bytes())

    def add(self, point: str, places: Iterable[str]) -> None:
        """Note places, as far as the repository takes it: otherwise they are compared again. `point`: the one that is
        copied. Raises: StorageStopped.
        """
        new = {_key(each) for each in places} - self._keys
        if not new or len(self._keys) + len(new) > MOST:
            return
        self._keys |= new
        content = b"".join(map(NUMBER.pack, sorted(new)))
        name = f"{point}.{amiss.digits(content)}{layout.COMPARED}"
        self.is_any_there = True
        with tempfile.TemporaryDirectory() as scratch, suppress(StorageFailed):
            (file := Path(scratch, name)).write_bytes(content)
            known.keep(self.store.known, f"{point}{OF_A_MARK}", known.digest_of(file))
            self.store.put(file, f"{self.folder}/{layout.MANIFESTS}/{name}")

    def _may_be_ours(self, name: str) -> bool:
        run, digits, _ = name.split(".")
        return self.store.known is None or any(each.startswith(digits) for each in self._digests(run))

    def _digests(self, run: str) -> Collection[str]:
        return (self.store.known or {}).get(f"{run}{OF_A_MARK}", ())

    def _take(self, name: str, content: bytes) -> None:
        run, digits, _ = name.split(".")
        digest = hashlib.sha256(content).hexdigest()
        is_ours = digest in self._digests(run) if self.store.known is not None else digest.startswith(digits)
        if is_ours and len(content) in OF_A_NOTE and len(content) // NUMBER.size + len(self._keys) <= MOST:
            self._keys.update(each for (each,) in NUMBER.iter_unpack(content))


def _key(place: str) -> int:
    (found,) = NUMBER.unpack_from(hashlib.sha256(place.encode("utf-8", "surrogatepass")).digest())
    return int(found)
