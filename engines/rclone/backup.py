"""One backup of a source by rclone: the files that it lists, brings, and names in the point that it makes."""

import pwd
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from grp import getgrgid

from engines.base import EngineResult, RunEnded, Verdict
from engines.limits import Later
from engines.rclone import bringing, cut_copies, local, reported_digests
from engines.rclone.comparing import Comparison, PathDecision, with_exceptions
from engines.rclone.last_point import LastPoint, coming
from engines.rclone.leftovers import Leftovers
from engines.rclone.likeness import Likeness
from engines.rclone.listing import Listing, gone_of, list_folder, list_remote
from engines.rclone.local import Listed
from engines.rclone.point import PointMaker
from engines.rclone.run import RcloneRun
from engines.rclone.transfer import Transfer
from engines.results import failure
from external.processes.programs import rclone_version
from storage import layout
from storage.points import arrived_files, lost_results, runs, sorted_items, sweeping
from storage.points.entries import Entry, from_values
from storage.points.exception_texts import warnings_of
from storage.points.manifests import Line
from storage.points.runs import AllRemoved, BaseGone, BegunRun
from storage.points.sorted_items import SortedItems
from storage.points.store import StorageFailed, StorageStopped

TRIES = 3
"""Tries of a backup whose base, the last point, is removed while it runs."""
TWICE = "its source has more than one file of this name, and one of them was copied: rename the others"
SHOWN = 20
HALF = "more than half of its files could not be copied: "


def back_up(run: RcloneRun) -> EngineResult:
    """Make a point. Raises: what `result_of` turns into a result."""
    run.check_source()
    store, folder = run.store, run.task.folder
    for _ in range(TRIES):
        with suppress(BaseGone):  # the next try finds the files that were brought, by this try's mark
            begun = runs.begin(store, folder, run.task.started_at, run.task.newest)
            begun = lost_results.check_base(store, folder, begun, run.task.newest)
            if begun.left and run.space.lack():  # the disk may be full because of the files that they left
                with suppress(StorageFailed):
                    arrived_files.remove_pieces(store, folder, begun.left)
            run.space.check_before()
            with ExitStack() as opened:
                result = _PointAttempt(run, begun, opened).make()
            if begun.left and result.snapshot:
                with suppress(StorageFailed, OSError):
                    sweeping.sweep_left(store, folder)
            return result
    raise StorageFailed(f"the points of {folder} are removed while it is backed up; it is tried again")


class _PointAttempt:
    """One try to make a point. `opened`: closes its files."""

    def __init__(self, run: RcloneRun, begun: BegunRun, opened: ExitStack) -> None:
        self.run, self.begun, self.opened = run, begun, opened
        self.task, self.store = run.task, run.store
        self.kept = opened.enter_context(SortedItems[Line]())
        self.listing = Listing(opened.enter_context(SortedItems()), run.task.reserve)
        self.likeness = Likeness(run.task, run.stop)
        self.transfer = Transfer(run, begun, opened)
        self.wanted = self.transfer.wanted
        self.comparison: Comparison

    def make(self) -> EngineResult:
        previous = self.opened.enter_context(coming(self.store, self.task.folder, self.begun))
        self._list()
        last = previous.wait()
        self._compare(last)
        try:
            if self.wanted.files:
                self.transfer.bring()
                cut_copies.leave_out(self.transfer)
            return self._make_point(last)
        except (OSError, AllRemoved):
            self._disown()
            raise
        except (RunEnded, StorageStopped, StorageFailed) as error:
            if self.wanted.files and not isinstance(error, BaseGone):
                self._leave()
            if not isinstance(error, RunEnded):
                raise
            self.run.blame_the_repository(error)
            return failure(error.verdict, str(error))

    def _list(self) -> None:
        task = self.task
        if task.source.kind == "local":
            list_folder(self.listing, task.source, task.options, self.store.check_stop)
            return
        digest = reported_digests.offered(task.source, self.run.ask) if task.options.get("checksum") else ""
        judgement = list_remote(self.listing, task.source, task.options, self.run.ask, digest)
        self.run.is_bounded = self.listing.is_sized
        bringing.check(judgement)
        self.run.check_it_answers(judgement.is_silent)

    def _compare(self, last: LastPoint) -> None:
        """Sort the paths into lines of the last point that stay, and items, which are written into a file, since they
        are read more than once.
        """
        listing, likeness = self.listing, self.likeness
        self.comparison = Comparison(
            last.name, listing.exceptions, likeness.is_same, likeness.is_asked, last.parse, self.kept.add,
            self.store.check_stop, likeness.is_checked, listing.empty,
        )  # fmt: skip
        found: Iterable[Listed] = listing.found
        if self.task.options.get("checksum") and self.task.source.kind != "local":
            found = reported_digests.with_digests(found, self.task.source, self.task.options, self.run.ask)
        listed = with_exceptions(found, listing.exceptions)
        items = likeness.looked_at(self.comparison.items(listed, last.lines()))
        if self.begun.left:
            same, confirmed = likeness.is_same_as_planned, self.run.confirmed
            items = Leftovers(self.store, self.task.folder, self.begun.left, same, confirmed).taken_over(items)
        self.transfer.plan(items)

    def _make_point(self, last: LastPoint) -> EngineResult:
        task, run, listing = self.task, self.run, self.listing
        making = PointMaker(
            task, self.store, self.comparison, self.transfer.problems, self._gone(), self.transfer.early
        )
        entries = making.entries(self.transfer.brought)
        if self.wanted.files or self.wanted.asked or listing.exceptions:
            # the header, which comes first, shows whether there are exceptions among them
            made = self.opened.enter_context(sorted_items.written(map(tuple, entries)))
            entries = map(from_values, sorted_items.read(made))
        if making.failed > making.files / 2:
            raise RunEnded(Verdict.SOURCE_FAILED, HALF + "; ".join(making.said[:6]))
        is_marked = bool(self.wanted.files)
        runs.check_base(self.store, task.folder, self.begun, is_marked=is_marked)
        is_complete = not (making.exceptions or task.left_out)
        header = replace(
            run.header("rclone", task.engine_version or rclone_version(), complete=is_complete),
            base=last.name,
            users=local.names_of({user for user, _ in listing.owners}, pwd.getpwuid),
            groups=local.names_of({group for _, group in listing.owners}, getgrgid),
            not_kept=listing.lost,
        )
        totals, digest = runs.write_point(self.store, task.folder, self.begun.name, header, _merged(self.kept, entries))
        runs.check_made(self.store, task.folder, self.begun, is_marked=is_marked)
        runs.end(self.store, task.folder, self.begun.name)
        warnings = [
            *task.left_out,
            *warnings_of(making.exceptions, making.said),
            *listing.notes.sentences,
            *making.notes,
            *self.transfer.warnings,
        ]
        warnings += [f"{path}: {TWICE}" for path in self.comparison.twice[:SHOWN]]
        warnings += [last.problem] if last.problem else []
        return EngineResult(
            Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
            size=totals.size,
            files=totals.files,
            new=making.new,
            changed=making.changed,
            unchanged=making.unchanged + self.comparison.unchanged,
            removed=self.comparison.removed,
            added=making.added,
            read=run.progress.size,
            snapshot=self.begun.name,
            manifest=digest,
            warnings=tuple(warnings),
            not_kept=tuple(listing.lost),
        )

    def _gone(self) -> set[str]:
        """The paths that were not listed, and that the source confirms as gone."""
        items = self.transfer.items if self.wanted.asked else iter(())
        asked = [each.path for each in items if each.state is PathDecision.ASKED]
        if not asked or self.task.source.kind == "local":
            return set(asked)  # the listing of a folder shows it, or that it could not be read
        folders = {path for path, _, fields, _ in self.listing.found if fields[1] == "folder"}
        return gone_of(self.task.source, asked, folders, self.run.ask)

    def _disown(self) -> None:
        """Remove the files of this run, so that no later run takes them over: after a failed write to a disk on this
        host, they may be whole in memory alone. Or everything was removed, and no later run would do it. The mark is
        removed first.
        """
        store, folder = self.store, self.task.folder
        with suppress(StorageStopped, StorageFailed, OSError):
            runs.end(store, folder, self.begun.name)
            for each in self.wanted.folders:
                store.delete(f"{layout.files_path(folder)}/{each}")

    def _leave(self) -> None:
        """Remove pieces of files, and flush the whole ones to the disk, so that the next run can take them over, even
        after a power cut; on a server, note that nothing is in doubt. A run that was stopped does as much of this as
        half of the remaining grace allows.
        """
        stop = Later(self.run.stop, (self.task.grace - self.task.program_grace) / 2)
        store = replace(self.store, stop=stop)
        is_sure = False
        with suppress(StorageStopped, StorageFailed, OSError):
            self.run.leave_out(
                {each for each in self.run.cut if layout.run_of(each.partition("/")[0]) == self.begun.name}, store
            )
            is_sure = not self.run.is_in_doubt
        with suppress(StorageStopped, StorageFailed, OSError):
            arrived_files.remove_pieces(store, self.task.folder, [self.begun.name])
            if self.task.location.directory or is_sure:
                runs.note_flushed(store, self.task.folder, self.begun.name)


def _merged(lines: Iterable[Line], entries: Iterable[Entry]) -> Iterator[Entry | Line]:
    """Both by path. Each is sorted, and no path is in both."""
    kept = iter(lines)
    line = next(kept, None)
    for entry in entries:
        while line is not None and line[0] < entry.path:
            yield line
            line = next(kept, None)
        yield entry
    if line is not None:
        yield line
        yield from kept
