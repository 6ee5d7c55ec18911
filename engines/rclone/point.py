"""Makes the point of a run from the files that it took over and those that have come."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from engines.base import BackupTask, RunEnded, Verdict
from engines.rclone.bringing import Problems, is_as_wanted
from engines.rclone.comparing import Comparison, Item, PathDecision
from engines.rclone.early_digests import EarlyDigests
from engines.rclone.local import facts_now, is_as_listed
from external.processes.runner import StopSignal
from storage import layout
from storage.points.arrived_files import Arrived
from storage.points.counted_paths import CountedPaths
from storage.points.digests import digests_of_copy
from storage.points.entries import Entry
from storage.points.files import nanoseconds
from storage.points.store import Store

TOGETHER = 2_000
"""Entries whose digests are found at a time."""
NOT_GONE = "it was not listed, although its source does not report that it is gone"
OF_ANOTHER = "it is one file with {}, which was not copied: {}"
REPLACED = "it was one file with {}, which another file replaced before it was copied"
DOUBTFUL_FOR = 2 * 10**9
"""Nanoseconds before a run in which a file may have changed without a sign: the coarsest clock of a file system."""
UNLIKE = "not as its source listed it; the next run brings it again"
CHANGED = (
    "changed while they were backed up: their copies may mix older and newer content; the next run brings them again"
)
NOT_ALL = (
    "{} paths are in the source's listing or were in the last point, and the new one would name {}: report this fault"
)
SHOWN = 20
CAPABILITY = "security.capability"


@dataclass
class PointMaker:
    """The making of a point. `problems`: the reasons why files were not copied; `gone`: the paths that the source
    confirms as gone; `early`: the digests of files that were read while others came. `failed`: files that should have
    come and did not. `named`: the paths that the point names; `dropped`: those of the last one that it does not.
    `notes`: other facts that users must know.
    """

    task: BackupTask
    store: Store
    comparison: Comparison
    problems: Problems
    gone: set[str]
    early: EarlyDigests
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    added: int = 0
    files: int = 0
    exceptions: int = 0
    failed: int = 0
    named: int = 0
    dropped: int = 0
    notes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    _done: dict[str, Entry] = field(default_factory=dict)
    _changed: CountedPaths = field(default_factory=CountedPaths)

    def __post_init__(self) -> None:
        self._firsts = set(self.comparison.first.values())
        self._since = int(self.task.started_at.timestamp()) * 10**9 - DOUBTFUL_FOR

    def entries(self, items: Iterator[tuple[Item, Arrived | None]]) -> Iterator[Entry]:
        """The entries of the items, sorted by path: with the lines that stay they are those of the point. Raises:
        StorageStopped; the exceptions of the previous manifest's reader; after the last one RunEnded, if the point does
        not name each path that was listed.
        """
        self.files, self.named = self.comparison.unchanged, self.comparison.kept
        while piece := list(islice(items, TOGETHER)):
            made = [self._made(item, arrived) for item, arrived in piece]
            came = [each for each in made if each and each.folder and not each.digest]
            digests = self._digests(came) if came else {}
            unlike = self._unlike(came, digests) if came else set[str]()
            unlike |= self._changed_since({each.path for each in came} - digests.keys(), piece) if came else set()
            for (item, _), entry in zip(piece, made, strict=True):
                if item.state is PathDecision.LINKED:
                    entry = self._linked(item)
                if entry is None:
                    continue
                if digest := digests.get(entry.path):
                    entry = entry._replace(digest=digest[0], digest_from=digest[1])
                if entry.path in unlike:
                    entry = entry._replace(doubtful=True)
                if item.path in self._firsts:
                    self._done[item.path] = entry
                self._count(item, entry)
                self.named += 1
                yield entry
        if self.named + self.dropped != (paths := self.comparison.listed + self.comparison.carried):
            raise RunEnded(Verdict.SOURCE_FAILED, NOT_ALL.format(paths, self.named))
        self.notes += self._changed.sentences

    def _made(self, item: Item, arrived: Arrived | None) -> Entry | None:
        """The entry of an item; None if the point does not name it, or only by another one."""
        match item.state:
            case PathDecision.WANTED if arrived is None:
                self.failed += 1
                return self.comparison.excepted(item.entry, item.old, self.problems.why(item.path))
            case PathDecision.WANTED | PathDecision.LEFT:
                return self._brought(item, arrived or (item.entry.size, ""))
            case PathDecision.LINKED:
                return None
            case PathDecision.ASKED if item.path in self.gone:
                self.comparison.removed += 1
                self.dropped += 1
                return None
            case PathDecision.ASKED:
                return self.comparison.excepted(item.entry, item.old, NOT_GONE)
        return item.entry

    def _brought(self, item: Item, arrived: Arrived) -> Entry:
        entry, old = item.entry, item.old
        if not is_as_wanted(arrived, entry):  # it changed while it was copied
            return entry._replace(size=arrived[0], doubtful=True)
        if _is_privileged(entry) and not is_as_listed(Path(self.task.source.path), entry):
            return entry._replace(doubtful=True)  # other content could run with the rights that were meant for this one
        if (old is not None and old.doubtful and looks_same(entry, old)) or not self._is_recent(entry):
            return entry
        return entry._replace(doubtful=True)

    def _is_recent(self, entry: Entry) -> bool:
        if entry.changed is not None:
            return entry.changed >= self._since
        with suppress(ValueError, OverflowError):
            return bool(entry.modified) and nanoseconds(entry.modified) >= self._since
        return False

    def _linked(self, item: Item) -> Entry:
        first = self._done.get(item.entry.linked)
        if first is None or not first.folder:
            why = OF_ANOTHER.format(item.entry.linked, first.why if first else "")
            return self.comparison.excepted(item.entry, item.old, why)
        if not self._is_of_one_file(item.entry, first):
            return self.comparison.excepted(item.entry, item.old, REPLACED.format(first.path))
        return item.entry._replace(
            size=first.size, digest=first.digest, digest_from=first.digest_from, folder=first.folder,
            stored=first.stored or first.path, doubtful=first.doubtful, why=first.why, as_of=first.as_of,
        )  # fmt: skip

    def _is_of_one_file(self, entry: Entry, first: Entry) -> bool:
        """True if what was copied as `first` is also the content of this other name of the file, and not that of a file
        which has replaced that name in the meantime.
        """
        folder = Path(self.task.source.path)
        if facts_now(folder, first).inode == first.inode:
            return True
        own = digests_of_source(folder, [entry._replace(changed=None)], self.store.stop).get(entry.path)
        return own is not None and own == first.digest

    def _count(self, item: Item, entry: Entry) -> None:
        if entry.why:
            self.exceptions += 1
            if len(self.said) < SHOWN:
                self.said.append(f"{entry.path}: {entry.why}")
        if entry.kind == "folder":
            return
        self.files += 1
        old = item.old if item.old is not None and item.old.kind != "folder" and item.old.is_kept else None
        if not entry.is_kept:
            return
        if old is None:
            self.new, self.added = self.new + 1, self.added + entry.size
        elif entry.is_same(old):
            self.unchanged += 1
        else:
            self.changed, self.added = self.changed + 1, self.added + entry.size

    def _digests(self, entries: list[Entry]) -> dict[str, tuple[str, str]]:
        """Path → SHA-256, and its origin: read back from the copy if that is in a folder on this host, else from the
        source if that is one and the file is as it was when it was listed.
        """
        if not entries:
            return {}
        task = self.task
        if task.directory:
            early = self.early.of(entries)
            by_place = {each.place: each.path for each in entries if each.path not in early}
            found, unread = digests_of_copy(task.directory / layout.FILES, list(by_place), self.store.stop)
            self.notes += [f"{by_place[place]}: its copy cannot be read back: {e.strerror}" for place, e in unread]
            read = early | {by_place[place]: digest for place, digest in found.items()}
            return {path: (digest, "copy") for path, digest in read.items()}
        if task.source.kind != "local":
            return {}
        found = digests_of_source(Path(task.source.path), entries, self.store.stop)
        return {path: (digest, "source") for path, digest in found.items()}

    def _unlike(self, came: list[Entry], digests: Mapping[str, tuple[str, str]]) -> set[str]:
        """The paths of files whose content does not have the digest that their source reported when it was listed: it
        changed in the meantime. Checked where the repository can be asked for it: on this host, or if it has digests.
        """
        asked, unlike = defaultdict[str, dict[str, tuple[str, str]]](dict), list[str]()
        for each in came:
            kind, _, told = each.told.partition(":")
            if told and told != digests.get(each.path, ("",))[0]:
                asked[kind][each.place] = each.path, told
        for kind, places in asked.items():
            found = self.store.digests(layout.files_path(self.task.folder), places, kind)
            unlike += [path for place, (path, told) in places.items() if found.get(place, told) != told]
        self.notes += [f"{path}: {UNLIKE}" for path in unlike[: max(SHOWN - len(self.notes), 0)]]
        return set(unlike)

    def _changed_since(self, paths: Collection[str], piece: Iterable[tuple[Item, Arrived | None]]) -> set[str]:
        """The paths, among these, of files that were written to since they were opened, as far as that is known, and
        have the size that was listed. rclone notices a different size itself, and a change only where it has digests of
        both files. Only for a folder on this host whose files are not stored as they are in another one.
        """
        changed, task = set[str](), self.task
        if not paths or task.source.kind != "local" or task.directory:
            return changed
        for item, arrived in piece:
            if item.path in paths and arrived:
                now = facts_now(Path(task.source.path), item.entry)
                is_as_opened = bool(arrived[1]) and is_as_wanted(arrived, now)
                if now.size == item.entry.size and now.modified != item.entry.modified and not is_as_opened:
                    self._changed.add(CHANGED, item.path)
                    changed.add(item.path)
        return changed


def _is_privileged(entry: Entry) -> bool:
    """True if it runs with more rights than its caller has."""
    return bool((entry.mode or 0) & 0o6000) or CAPABILITY in (entry.attributes or ())


def digests_of_source(folder: Path, entries: Iterable[Entry], stop: StopSignal) -> dict[str, str]:
    """Path → SHA-256 of the files in a folder on this host that are as they were listed, before they are read and
    afterwards.
    """
    listed = {each.path: each for each in entries if is_as_listed(folder, each)}
    found, _ = digests_of_copy(folder, list(listed), stop)
    return {path: digest for path, digest in found.items() if is_as_listed(folder, listed[path])}


def looks_same(entry: Entry, old: Entry) -> bool:
    """True if size and times are the same."""
    return (entry.size, entry.modified, entry.changed) == (old.size, old.modified, old.changed)
