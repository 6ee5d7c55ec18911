"""The transfer of a run's files into its folders, in several tries: all together, one by one, under other names."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO

from engines.rclone import bringing, misplaced
from engines.rclone.bringing import BroughtFiles, Lists, Problems, WantedFiles, is_as_wanted
from engines.rclone.comparing import Item, is_wanted, packed, unpacked
from engines.rclone.early_digests import EarlyDigests
from engines.rclone.renaming import bring_renamed
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import Judgement
from external.formatting import several
from storage import layout
from storage.places.rclone import LISTED
from storage.points import runs, sorted_items
from storage.points.arrived_files import Arrived
from storage.points.refusals import ONE_AT_A_TIME
from storage.points.runs import BegunRun
from storage.points.sorted_items import SortedItems

ONE_BY_ONE = "{} came only one at a time: give the policy the option transfers with the value 1"
NOT_AGAIN = (
    "{} may have the content of another file, could not be copied again, and will be by the next run, such as {!r}: {}"
)
AGAIN = 3
"""Tries of a single file that does not answer although its source does."""
MOST_CUTS = 20
"""The most limits in a row that other files reach, or rclones that hang."""
BETWEEN_LOOKS = 1_000
"""The number of items between two checks for a stop."""


class Transfer:
    """The transfer of one run. `opened`: closes its files. `problems`: why files were not copied; `refused`: those that
    no try has stored; `warnings`: other facts about it; `early`: digests of files, as far as they were read while
    others came. `fetched`: folder, file and bytes of each list that was copied, with those of tries that failed;
    `sure`: the places of files that have come whole although rclone failed to copy them.
    """

    def __init__(self, run: RcloneRun, begun: BegunRun, opened: ExitStack) -> None:
        self.run, self.begun, self.opened = run, begun, opened
        self.task, self.store = run.task, run.store
        self.early = EarlyDigests(run.task.directory, begun.name, opened.enter_context(SortedItems()))
        lists = Lists(opened, self.early.await_list)
        self.wanted = WantedFiles(begun.name, lists, run.task.source.kind == "local")
        self.came, self.problems = BroughtFiles(opened.enter_context(SortedItems())), Problems()
        self.refused, self.fetched = set[str](), list[tuple[str, str, int]]()
        self.warnings: list[str] = []
        self.lacking, self.sure = 0, set[str]()
        self.draft: IO[bytes]

    def plan(self, items: Iterable[Item]) -> None:
        """Take the items of a run, sorted by path, and write them into a file, since they are read more than once."""
        self._write(self.wanted.placed(items))

    @property
    def items(self) -> Iterator[Item]:
        return self._counted(map(unpacked, sorted_items.read(self.draft)))

    @property
    def brought(self) -> Iterator[tuple[Item, Arrived | None]]:
        """Each item, with the file that was brought for it; None if none was."""
        for item, arrived in bringing.with_arrived(self.items, self.came, self.begun.name):
            yield item, None if arrived and is_wanted(item) and self._is_cut(item) else arrived

    def bring(self) -> None:
        """Bring the planned files. Raises: RunEnded; the exceptions of stores."""
        run, begun = self.run, self.begun
        planned = (each.entry for each in self.items if is_wanted(each))
        runs.mark(self.store, self.task.folder, begun.name, run.header("rclone", "", boot=runs.boot()), planned)
        run.progress.total = self.wanted.size
        with self.early.at_work(run.stop):
            self.problems = bringing.bring(self.task, self.wanted.lists, self._transfer)
        self.refused = misplaced.refused(self.problems)
        self._bring_renamed(self.wanted.renamed)
        self._look_again()
        self._bring_after_cuts()
        if not (self.problems.by_path or self.problems.unnamed or self.run.cut) and self.wanted.have_come(self.came):
            return
        for number in range(AGAIN):
            # files that did not answer may by now: the source was silent for a moment
            if number and not self.problems.is_silent:
                break
            if not self._bring_again():
                break
        if self.lacking or self.came.count != self.wanted.files:
            self._bring_misplaced()

    def _bring_after_cuts(self, *how: str, before: int = 0) -> None:
        """Bring the files that did not come because a limit was reached, or an rclone hung: first those that no rclone
        has tried, then those that it was copying at the limit, each alone, to another place, with a limit by its
        present size. `how`: more arguments of rclone. Nothing is done if there are no more of the latter than `before`,
        and no rclone hung.
        """
        if len(self.run.cut) == before and not self.problems.stood_still:
            return
        for _ in range(MOST_CUTS):
            if not self._bring_rest(*how):
                break
        else:
            self.problems.unnamed += 1
        self._rename(lambda item, found: self._is_cut(item) and not self.problems.is_final(item.path), alone=True)

    def _bring_rest(self, *how: str) -> bool:
        """Bring the missing files that no rclone has tried. Returns True if it was cut off before the last one."""
        lists, renamed, cut = Lists(self.opened), list[tuple[str, str]](), len(self.run.cut)
        for item, found in self.brought:
            if found is None and is_wanted(item) and not self._was_tried(item):
                if item.entry.stored:
                    renamed.append((item.path, item.entry.place))
                else:
                    lists.add(item.entry.folder, item.path, item.entry.size)
        problems = bringing.bring(self.task, lists, self._transfer_as_it_is, *how)
        self.refused |= misplaced.refused(problems)
        self._add(problems)
        self._bring_renamed(renamed)
        self._look_again()
        return problems.stood_still or len(self.run.cut) > cut

    def _transfer(self, arguments: tuple[str, ...], size: int, folder: str) -> Judgement:
        judgement = self.run.transfer(arguments, size, folder=folder)
        self.fetched.append((folder, file := _list_in(arguments).removeprefix(LISTED), self.run.log.transferred))
        if judgement.stood_still and not self.store.location.directory:
            self._leave_out_unconfirmed(folder, file)
        return judgement

    def _leave_out_unconfirmed(self, folder: str, file: str) -> None:
        paths = Path(file).read_bytes().decode("utf-8", "surrogatepass").split("\0")
        sizes = self.store.sizes(f"{layout.files_path(self.task.folder)}/{folder}", [each for each in paths if each])
        unconfirmed = sizes.keys() - self.run.confirmed(folder, sizes) if sizes else ()
        self.run.leave_out({f"{folder}/{each}" for each in unconfirmed})

    def _transfer_as_it_is(self, arguments: tuple[str, ...], size: int, folder: str) -> Judgement:
        """Transfer a list with the limit of the sizes that its files have by now, if they have grown."""
        return self._transfer(arguments, max(size, self.run.size_of(_list_in(arguments))), folder)

    def _was_tried(self, item: Item) -> bool:
        return self._is_cut(item) or bool(self.problems.message_of(item.path))

    def _is_cut(self, item: Item) -> bool:
        return item.entry.place in self.run.cut

    def _bring_again(self) -> bool:
        """Try again, one by one, the files that did not come and still may. Returns True if there was any."""
        again, tried, cut, self.lacking = Lists(self.opened), set[str](), len(self.run.cut), 0
        renamed = list[tuple[str, str]]()
        for item, found in self.brought:
            if found is None and is_wanted(item):
                self.lacking += 1
                if self._may_pass(item):
                    if item.entry.stored:
                        renamed.append((item.path, item.entry.place))
                    else:
                        again.add(item.entry.folder, item.path, item.entry.size)
                    tried.update({item.path} & self.problems.by_path.keys())
        number = sum(again.counts.values())
        if number or renamed:
            second = bringing.bring(self.task, again, self._transfer, *ONE_AT_A_TIME)
            is_of_a_limit = not (self.problems.is_silent or second.is_silent or len(self.run.cut) > cut)
            if is_of_a_limit and (brought := number - len(second.by_path) - second.unnamed) > 0:
                self.warnings.append(ONE_BY_ONE.format(several(brought, "file")))
            self.refused -= tried - misplaced.refused(second)
            over = set[str]() if second.unnamed else tried  # their earlier reasons
            before = {path: why for path, why in self.problems.by_path.items() if path not in over}
            second.by_path = before | second.by_path
            self.problems = second
            self._bring_renamed(renamed)
            self._look_again()
            self._bring_after_cuts(*ONE_AT_A_TIME, before=cut)
        return bool(number or renamed)

    def _may_pass(self, item: Item) -> bool:
        return not self._is_cut(item) and self.problems.may_pass(item.path)

    def _bring_renamed(self, pairs: list[tuple[str, str]], *, alone: bool = False) -> None:
        """Bring files under other names. Repeats it for those that did not come because an rclone hung."""
        for _ in range(MOST_CUTS):
            if not pairs:
                break
            problems = bring_renamed(self.run, pairs, sizes=self.wanted.sizes, alone=alone)
            self._add(problems)
            if not problems.stood_still:
                break
            self._look_again()
            if not self.store.location.directory:  # a server may keep what came in part, or altered: it comes once more
                self.run.leave_out({place for _, place in pairs if place in self.came.others})
            missing = (pair for pair in pairs if pair[1] not in self.came.others and pair[1] not in self.run.cut)
            pairs = [pair for pair in missing if not problems.message_of(pair[0])]
        else:
            self.problems.unnamed += 1

    def _add(self, problems: Problems) -> None:
        self.problems.by_path |= problems.by_path
        self.problems.unnamed += problems.unnamed
        self.problems.is_silent |= problems.is_silent

    def _bring_misplaced(self) -> None:
        """Bring the files again that the repository does not keep under their names, or may keep with another's
        content. Its extra files are removed first, so that the last look shows the consequences.
        """
        problems, run = self.problems, self.begun.name
        there = dict(misplaced.strays(self.items, self.came, run))
        missing = misplaced.UnexplainedFiles(is_timed=self.store.location.directory is not None)
        for item, found in self.brought:
            if (
                found is None
                and is_wanted(item)
                and not item.entry.stored
                and not misplaced.is_refused(item.path, self.refused)
            ):
                missing.add(item.path, item.entry.size, item.entry.modified)
        self.run.delete(there)
        is_any_renamed = self._rename(
            lambda item, found: (
                found is None
                and not self._is_cut(item)
                and misplaced.may_be_renamed(item.path, problems, is_any_stray=bool(there))
            )
        )
        if there and not is_any_renamed:
            self._look_again()
        for item, found in self.brought if is_any_renamed else ():
            if found and is_wanted(item) and item.entry.stored and not is_as_wanted(found, item.entry):
                missing.add(item.path, *found)  # it may have changed before it was copied for the first time
        for stray in there.values():
            missing.explain(stray)
        self._rename(lambda item, found: found is not None and missing.may_be(found))

    def _rename(self, is_meant: Callable[[Item, Arrived | None], bool], *, alone: bool = False) -> bool:
        """Bring these files under other names, then delete those that they had. One that does not come keeps the file
        that it has, as doubtful. `alone`: as in `bring_renamed`. Returns True if there was any.
        """
        renamed, had = len(self.wanted.renamed), set[str]()
        for item, found in self.brought:
            if not is_wanted(item) or (item.entry.stored and not self._is_cut(item)):
                continue
            if is_meant(item, found):
                self.wanted.rename(item.entry)
                had.update([item.path] if found else [])
        if not (pairs := self.wanted.renamed[renamed:]):
            return False
        self._bring_renamed(pairs, alone=alone)
        self._look_again()
        came = {path: place for path, place in pairs if place in self.came.others}
        places = [each.entry.place for each in self.items if is_wanted(each) and each.path in had and each.path in came]
        if kept := sorted(had - came.keys()):
            self.warnings.append(NOT_AGAIN.format(several(len(kept), "file"), kept[0], self.problems.why(kept[0])))
        self._write(bringing.with_places(self.items, came, set(kept)))
        if places:
            self.run.delete(places)
            self._look_again()
        return True

    def _look_again(self) -> None:
        self.came = BroughtFiles(self.opened.enter_context(SortedItems()))
        self._look()

    def _look(self) -> None:
        self.run.check_it_answers(self.problems.is_silent)
        self.run.delete(self.run.cut)
        bringing.look(self.store, self.task.folder, self.begun.name, self.wanted.folders, self.came, self.run.cut)
        if self.store.location.directory is None and (self.problems.by_path or self.problems.unnamed):
            self._leave_out_failed()

    def _leave_out_failed(self) -> None:
        """Leave out files that are on a server although rclone failed to copy them, unless they equal the source's: it
        may have failed before it compared them, and a server may take an altered file.
        """
        sizes, failed = defaultdict[str, dict[str, int]](dict), set[str]()
        for item, found in self.brought:
            if found is None or not is_wanted(item) or item.entry.place in self.sure:
                continue
            is_named = bool(self.problems.message_of(item.path))
            if is_named or (self.problems.unnamed and not item.entry.stored):
                failed.add(item.entry.place)
                if not item.entry.stored:
                    sizes[item.entry.folder][item.path] = found[0]
        for folder, there in sizes.items():
            self.sure.update(f"{folder}/{each}" for each in self.run.confirmed(folder, there))
        self.run.leave_out(failed - self.sure)

    def _write(self, items: Iterable[Item]) -> None:
        self.draft = self.opened.enter_context(sorted_items.written(map(packed, self._counted(items))))

    def _counted(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, with a regular check for a stop. Raises: StorageStopped."""
        waiting = iter(items)
        while piece := list(islice(waiting, BETWEEN_LOOKS)):
            self.store.check_stop()
            yield from piece


def _list_in(arguments: tuple[str, ...]) -> str:
    return next(each for each in arguments if each.startswith(LISTED))
