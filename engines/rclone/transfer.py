"""The transfer of a run's files into its folders, in several tries: all together, one by one, under other names."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from typing import IO

from engines.rclone import bringing, misplaced
from engines.rclone.bringing import Came, Lists, Problems, Wanted
from engines.rclone.comparing import Item, is_wanted, packed, unpacked
from engines.rclone.renaming import bring_renamed
from engines.rclone.run import RcloneRun
from external.formatting import several
from storage import layout
from storage.points import runs, sorting
from storage.points.arrived import Arrived
from storage.points.manifests import Line
from storage.points.runs import Begun
from storage.points.sorting import Sorted
from storage.points.store import StorageFailed

ONE_BY_ONE = "{} came only one at a time: give the policy the option transfers with the value 1"
AGAIN = 3
"""Tries of single files, as long as they do not answer, and their source does."""
BETWEEN_LOOKS = 1_000
"""The number of items before a stop is noticed."""


class Transfer:
    """The transfer of one run. `opened`: closes its files. `problems`: why files were not copied; `warnings`: other
    facts about it.
    """

    def __init__(self, run: RcloneRun, begun: Begun, opened: ExitStack) -> None:
        self.run, self.begun, self.opened = run, begun, opened
        self.task, self.store = run.task, run.store
        self.wanted = Wanted(begun.name, Lists(opened), run.task.source.kind == "local")
        self.came, self.problems = Came(opened.enter_context(Sorted())), Problems()
        self.warnings: list[str] = []
        self.lacking = 0
        self.draft: IO[bytes]

    def plan(self, items: Iterable[Item | Line]) -> None:
        """Take the items of a run, sorted by path, and write them into a file, since they are read more than once."""
        self._write(self.wanted.placed(items))

    @property
    def items(self) -> Iterator[Item | Line]:
        return self._counted(map(unpacked, sorting.read(self.draft)))

    @property
    def brought(self) -> Iterator[tuple[Item | Line, Arrived | None]]:
        """Each item, with the file that was brought for it; None if none was."""
        return bringing.with_arrived(self.items, self.came, self.begun.name)

    def bring(self) -> None:
        """Bring the planned files. Raises: RunEnded; what stores raise."""
        run, begun = self.run, self.begun
        planned = (each.entry for each in self.items if is_wanted(each))
        runs.mark(self.store, self.task.folder, begun.name, run.header("rclone", "", boot=runs.boot()), planned)
        run.progress.total = self.wanted.size
        self.problems = bringing.bring(self.task, self.wanted.lists, run.transfer)
        self._bring_renamed(self.wanted.renamed)
        self._look()
        for number in range(AGAIN):
            # files that did not answer may by now: the source was silent for a moment
            if number and not self.problems.is_silent:
                break
            if not self._bring_again():
                break
        if self.lacking or self.came.count != self.wanted.files:
            self._bring_misplaced()

    def _bring_again(self) -> bool:
        """Try again, one by one, the files that did not come and still may. Returns True if there was any."""
        again, self.lacking = Lists(self.opened), 0
        for item, found in self.brought:
            if found is None and is_wanted(item):
                self.lacking += 1
                if not item.entry.stored and self.problems.may_pass(item.path):
                    again.add(item.entry.folder, item.path)
        if number := sum(again.counts.values()):
            second = bringing.bring(self.task, again, self.run.transfer, *bringing.ONE_AT_A_TIME)
            is_of_a_limit = not (self.problems.is_silent or second.is_silent)
            if is_of_a_limit and (brought := number - len(second.by_path) - second.unnamed) > 0:
                self.warnings.append(ONE_BY_ONE.format(several(brought, "file")))
            second.by_path = self.problems.by_path | second.by_path
            self.problems = second
            self._look_again()
        return number > 0

    def _bring_renamed(self, pairs: list[tuple[str, str]]) -> None:
        if pairs:
            renamed = bring_renamed(self.run, pairs)
            self.problems.by_path |= renamed.by_path
            self.problems.unnamed += renamed.unnamed

    def _bring_misplaced(self) -> None:
        """Bring again what the repository does not keep under its name, or may keep with the content of another file.
        What it has besides goes first, so that the last look sees what that cost.
        """
        problems, run = self.problems, self.begun.name
        there = dict(misplaced.strays(self.items, self.came, run))
        self._delete(there)
        missing = self._rename(
            lambda item, found: (
                found is None and misplaced.may_be_renamed(item.path, problems, is_any_stray=bool(there))
            )
        )
        if there and not missing:
            self._look_again()
        facts = [self.came.others[place] for _, place in missing if place in self.came.others]
        if replaced := misplaced.unexplained(facts, there.values()):
            self._rename(lambda item, found: found in replaced)

    def _rename(self, is_meant: Callable[[Item, Arrived | None], bool]) -> list[tuple[str, str]]:
        """Bring these files under other names. Returns their paths and new places."""
        renamed, places = len(self.wanted.renamed), list[str]()

        def items() -> Iterator[Item | Line]:
            for item, found in self.brought:
                if is_wanted(item) and not item.entry.stored and is_meant(item, found):
                    places.extend([item.entry.place] if found else [])
                    yield item._replace(entry=self.wanted.rename(item.entry))
                else:
                    yield item

        self._write(items())
        if pairs := self.wanted.renamed[renamed:]:
            self._delete(places)
            self._bring_renamed(pairs)
            self._look_again()
        return pairs

    def _delete(self, places: Collection[str]) -> None:
        """Delete files of this run, as far as these credentials may."""
        if places:
            with suppress(StorageFailed):
                self.store.delete(layout.files_path(self.task.folder), places)

    def _look_again(self) -> None:
        self.came = Came(self.opened.enter_context(Sorted()))
        self._look()

    def _look(self) -> None:
        self.run.check_it_answers(self.problems.is_silent)
        bringing.look(self.store, self.task.folder, self.begun.name, self.wanted.folders, self.came)

    def _write(self, items: Iterable[Item | Line]) -> None:
        self.draft = self.opened.enter_context(sorting.written(map(packed, self._counted(items))))

    def _counted(self, items: Iterable[Item | Line]) -> Iterator[Item | Line]:
        """The items, with a check for a stop every now and then. Raises: Stopped."""
        waiting = iter(items)
        while piece := list(islice(waiting, BETWEEN_LOOKS)):
            self.store.go_on()
            yield from piece
