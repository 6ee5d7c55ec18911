"""Whole files of runs that made no point: they are taken over instead of fetched again.

The mark of a run lists the files that it wanted to bring, with their sizes and times at the source. A file in the place
that the mark names, with that size, is whole, since rclone only then gives a file its name. It counts if the source
still has it with the same facts, and if it is certainly on the disk: its host has not been restarted since, or the run
flushed it before it ended, or it is on a server. It does not count if a missing file of the mark has the same size and
time, and may have replaced it on a disk that treats two names as one, or if its run noted that its content may be wrong
(`storage/points/amiss.py`). On a server, the files of an interrupted run are compared with the source first, once:
rclone has not reported which of them arrived altered. Only marks that our database knows are read: otherwise anyone who
can write to a repository could pass off any content as the source's.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from engines.rclone.bringing import is_as_wanted
from engines.rclone.comparing import Item, PathDecision, is_wanted
from engines.rclone.misplaced import UnexplainedFiles
from storage import layout
from storage.points import amiss, arrived_files, runs
from storage.points.arrived_files import Arrived
from storage.points.batches import OF_A_LIST, batches
from storage.points.entries import Entry
from storage.points.store import StorageFailed, Store

BETWEEN_LOOKS = 1_000
"""The number of files between two checks for a stop."""
MOST_DOUBTFUL = 50_000
"""The most files that are noted after a comparison. If a run left more, it is compared again."""
Taken = tuple[Item, Entry | None]
"""An item, with its entry if an earlier run has brought its file."""


@dataclass
class Leftovers:
    """The files of earlier runs. `left`: names of runs, the latest first. `confirmed`: gets a folder of a run and the
    sizes of files in it, by path, and returns the paths of those that equal the source's.
    """

    store: Store
    folder: str
    left: tuple[str, ...]
    is_same: Callable[[Entry, Entry], bool]
    confirmed: Callable[[str, Mapping[str, int]], Collection[str]]

    def taken_over(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, with those that earlier runs have brought marked as done. Sorted by path, as the marks are."""
        names = self.store.names(f"{self.folder}/{layout.MANIFESTS}")
        notes = amiss.by_run(names)
        with ExitStack() as opened:
            for run in self.left:
                found = opened.enter_context(runs.marked(self.store, self.folder, run))
                altered = amiss.noted(self.store, self.folder, notes.get(run, ()))
                if found and altered is not None and self._is_on_disk(run, found[0].boot, names):
                    there = arrived_files.of_runs(self.store, self.folder, [run])
                    pairs = self._from(found[1], items, there, altered)
                    has_ended = self.store.location.directory is not None or run + runs.FLUSHED in names
                    items = self._taken(pairs) if has_ended else self._compared(pairs, run, there, altered)
            yield from items

    def _is_on_disk(self, run: str, boot: str, names: Collection[str]) -> bool:
        if self.store.location.directory is None or (boot and boot == runs.boot()):
            return True
        return run + runs.FLUSHED in names

    def _compared(
        self, pairs: Iterable[Taken], run: str, there: dict[str, Arrived], altered: Collection[str]
    ) -> Iterator[Item]:
        for batch in batches(pairs, OF_A_LIST):
            sizes, sure = defaultdict[str, dict[str, int]](dict), set[str]()
            for _, left in batch:
                if left and not left.stored:  # few have another name, and are brought again
                    sizes[left.folder][left.path] = left.size
            for folder, found in sizes.items():
                sure.update(f"{folder}/{path}" for path in self.confirmed(folder, found))
            for place in sure:
                del there[place]
            yield from self._taken((item, left if left and left.place in sure else None) for item, left in batch)
        self._note_compared(run, there.keys() - altered)

    def _note_compared(self, run: str, doubtful: Collection[str]) -> None:
        """Note the files that were not found equal, and that no other file of the run is in doubt, so that it is
        compared only once: a first backup that takes weeks is stopped each day, and cannot read the files of all
        earlier days again.
        """
        if len(doubtful) <= MOST_DOUBTFUL and sum(map(len, doubtful)) <= amiss.MOST // 8:
            with suppress(StorageFailed):
                amiss.note(self.store, self.folder, run, doubtful)
                runs.note_flushed(self.store, self.folder, run)

    def _taken(self, pairs: Iterable[Taken]) -> Iterator[Item]:
        for item, left in pairs:
            yield item._replace(state=PathDecision.LEFT, entry=left) if left and is_wanted(item) else item

    def _from(
        self,
        marked: Callable[[], Iterator[Entry]],
        items: Iterable[Item],
        found: Mapping[str, Arrived],
        altered: Container[str],
    ) -> Iterator[Taken]:
        missing = self._missing(marked(), found)
        planned = marked()
        plan = next(planned, None)
        for item in items:
            if not is_wanted(item):
                yield item, None
                continue
            while plan is not None and plan.path < item.path:
                plan = next(planned, None)
            if (
                plan is not None
                and plan.path == item.path
                and plan.place in found
                and plan.place not in altered
                and is_as_wanted(found[plan.place], item.entry)
                and self.is_same(item.entry, plan)
                and (plan.stored or not missing.may_be(found[plan.place]))
            ):
                yield item, item.entry._replace(folder=plan.folder, stored=plan.stored)
            else:
                yield item, None

    def _missing(self, planned: Iterator[Entry], found: Mapping[str, Arrived]) -> UnexplainedFiles:
        missing = UnexplainedFiles(is_timed=self.store.location.directory is not None)
        for number, each in enumerate(planned):
            if number % BETWEEN_LOOKS == 0:
                self.store.check_stop()
            if not each.stored and each.place not in found:
                missing.add(each.path, each.size, each.modified)
        return missing
