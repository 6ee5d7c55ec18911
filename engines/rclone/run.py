"""Runs of rclone that talk to a source, one after another: started, watched, and judged."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from engines.base import RunEnded, RunStalled, Verdict
from engines.engine import EngineRun
from engines.rclone.log import BREAKDOWN, LoggedError, RcloneLog, SummedProgress
from engines.rclone.options import common_arguments, option_environment, reading_arguments
from engines.rclone.presence import check_marker
from engines.rclone.remotes import is_bucket, remote_path
from engines.rclone.verdicts import LIMIT_REACHED, OF_SINGLE_FILES, Judgement, describe, judge
from external.redaction import redacted
from storage import layout
from storage.places.pulse import LOGGED, Pulse, StoodStill
from storage.places.rclone import ANY, StorageFailed, command_line, expected, line_by_line
from storage.points import amiss, confirming
from storage.points.batches import OF_A_LIST, batches
from storage.points.store import Store

ENDED_BY_ITSELF = (0, *OF_SINGLE_FILES, LIMIT_REACHED)
"""Exit codes of an rclone that has compared all files that it copied, or has named those that it has not."""
MOST_STALLS = 3
"""The most rclones of a run that may be ended because single files did not come."""


class RcloneRun(EngineRun):
    """The runs of rclone for one source. `way`: the environment in which rclone reaches it. `is_bounded`: False if the
    source does not know the sizes of its files. `cut`: the places of files that were being copied when an rclone
    reached its limit, or that arrived with another content. A server may keep what came, even with the listed size:
    what is there never counts. `is_in_doubt`: True if an rclone did not end by itself, and so has not reported all such
    files.
    """

    def __init__(self, *run: Any, way: dict[str, str]) -> None:
        super().__init__(*run)
        self.log, self.entries = self._new_log(), 0
        self.is_bounded, self.cut, self._noted = True, set[str](), set[str]()
        self.is_in_doubt, self._stalls = False, 0
        self.progress = SummedProgress(self.on_progress)
        self.environment = option_environment(self.task.options, self.task.zone) | way

    def ask(self, arguments: tuple[str, ...], on_line: Callable[[str], None], size: int = -1) -> Judgement:
        """Let rclone list something of the source, or read files of `size` bytes there (not negative): their limit is
        that of a copy. Raises: RunEnded if it was ended.
        """

        def take(line: str) -> None:
            if line.startswith(LOGGED) or BREAKDOWN.match(line):
                self.log.take(line)  # not progress of the copy
            else:
                on_line(line)

        if size < 0:
            return self._run(arguments, take)
        pulse = Pulse(take, self._sign_of_life)
        try:
            return self._run(arguments, pulse.on_line, (), pulse.sign_of_life, self.limit(size))
        except StoodStill as error:
            return self._stood_still(error)

    def transfer(
        self,
        arguments: tuple[str, ...],
        size: int,
        inherited: tuple[int, ...] = (),
        folder: str | None = None,
        *,
        may_lack: bool = False,
    ) -> Judgement:
        """Let rclone copy something of the source. `size`: bytes that should come, which limit those that do;
        `inherited`: descriptors that it gets; `folder`: the folder below `files` that it goes to, None if it goes
        elsewhere; `may_lack`: files that never come may be left out there, too. Raises: RunEnded if it was ended;
        StorageStopped.
        """
        self.progress.begin()
        pulse = Pulse(self._take, self._sign_of_life)
        try:
            judgement = self._run(arguments, pulse.on_line, inherited, pulse.sign_of_life, self.limit(size))
        except StoodStill as error:
            judgement = self._stood_still(error)
        except RunEnded as error:
            is_bound = folder is None and not may_lack
            if is_bound or not self.log.transferring or not self._is_of_single_files(error):
                self.cut |= self._amiss(folder)  # they go as the run is left
                self.is_in_doubt = True
                raise
            judgement = self._silent(str(error), self.log.transferring)
        self.is_in_doubt |= not (judgement.stood_still or judgement.exit_code in ENDED_BY_ITSELF)
        self.leave_out(self._amiss(folder, is_over=judgement.exit_code == LIMIT_REACHED))
        return judgement

    def _stood_still(self, error: StoodStill) -> Judgement:
        named = tuple(each for each in self.log.problems if each.path)
        return Judgement(Verdict.SOURCE_FAILED, str(error), named, stood_still=True)

    def _silent(self, text: str, names: tuple[str, ...]) -> Judgement:
        ended = tuple(LoggedError(text, self._redacted(each), each) for each in names)
        return Judgement(Verdict.SOURCE_FAILED, text, (*self.log.problems, *ended), is_silent=True, stood_still=True)

    def _is_of_single_files(self, error: RunEnded) -> bool:
        """True if an rclone was ended since nothing moved: maybe only the files that it was copying did not come."""
        self._stalls += isinstance(error, RunStalled)
        return isinstance(error, RunStalled) and self._stalls <= MOST_STALLS

    def _amiss(self, folder: str | None, *, is_over: bool = False) -> set[str]:
        """The places of files that the last rclone has reported as altered; all that it has named if `is_over`."""
        named = [each.name for each in self.log.problems if each.name] if is_over else []
        return {f"{folder}/{each}".lstrip("/") for each in (*self.log.altered, *named)} if folder is not None else set()

    def leave_out(self, places: Collection[str], store: Store | None = None) -> None:
        """Discount everything at these places of one run: delete it, or note the places for the next run. `store`: one
        that is not stopped yet. Raises: StorageFailed, StorageStopped.
        """
        self.cut.update(places)
        if places and not self.delete(places, store) and (new := set(places) - self._noted):
            run = layout.run_of(min(new).partition("/")[0])
            amiss.note(store or self.store, self.task.folder, run, new)
            self._noted |= new

    def delete(self, places: Collection[str], store: Store | None = None) -> bool:
        """Delete files of this run. Returns False if these credentials may not. Raises: StorageStopped."""
        try:
            if places:
                (store or self.store).delete(layout.files_path(self.task.folder), places)
        except StorageFailed:
            return False
        return True

    def confirmed(self, folder: str, sizes: Mapping[str, int]) -> set[str]:
        """The paths, of these files (path → bytes) in a folder below `files` of a server, that equal the source's; none
        of a list that cannot be compared. Raises: StorageStopped.
        """
        how, equal = reading_arguments(self.task.options), set[str]()
        with suppress(StorageFailed):
            at = f"{layout.files_path(self.task.folder)}/{folder}"
            for batch in batches(sizes.items(), OF_A_LIST):
                equal |= confirming.confirmed(
                    self.store, remote_path(self.task.source), self.task.location, at, dict(batch), *how,
                    environment=self.environment,
                )  # fmt: skip
        return equal

    def limit(self, size: int) -> int:
        """The most bytes that may come where `size` should, which is negative if it is not known."""
        return min(expected(size), ANY) if self.is_bounded and size >= 0 else ANY

    def size_of(self, *how: str) -> int:
        """Bytes of the source's files now; -1 if that of one is not known. `how`: rclone's options that choose some.
        Raises: RunEnded.
        """
        total = 0

        def take(line: str) -> None:
            nonlocal total
            total = -1 if total < 0 or line == "-1" else total + int(line) if line.isdecimal() else total

        arguments = ("lsf", remote_path(self.task.source), "--recursive", "--files-only", "--format=s", *how)
        self.ask((*arguments, *(("--fast-list",) if is_bucket(self.task.source) else ())), take)
        return total

    def serve(self, arguments: tuple[str, ...]) -> Judgement:
        """Let rclone carry out the orders that come in the meantime, until one of them ends it. Raises: RunEnded if it
        was ended.
        """
        from storage.places.remote_control import Statistics  # with http.client, a tenth of a child's start

        self.progress.begin()
        look = Statistics(arguments, self._take)

        def sign_of_life() -> tuple[int, ...]:
            look()
            return self._sign_of_life()

        try:
            return self._run(arguments, self._take, sign_of_life=sign_of_life)
        except RunEnded as error:
            if self._is_of_single_files(error):
                return Judgement(Verdict.SOURCE_FAILED, str(error), is_silent=True)
            self.is_in_doubt = True
            raise

    def count_top(self) -> int:
        """The number of entries in the topmost folder. Raises: RunEnded."""
        self.entries = 0

        def take(line: str) -> None:
            self.entries += 1

        judgement = self.ask(("lsf", remote_path(self.task.source), "--max-depth=1"), take)
        if judgement.verdict is not Verdict.SUCCEEDED:
            text = judgement.text or "; ".join(map(describe, judgement.problems[:3]))
            verdict = Verdict.UNAVAILABLE if judgement.is_silent else judgement.verdict
            raise RunEnded(Verdict.SOURCE_FAILED if verdict is Verdict.WARNINGS else verdict, text)
        return self.entries

    def check_source(self) -> None:
        """Check that the source is there. S3 has no directories: a prefix that does not exist lists like an empty one.
        Raises: RunEnded.
        """
        source = self.task.source
        if is_bucket(source) and "/" in source.path.strip("/") and not self.count_top():
            text = f"there is nothing under {source.path}: check the path of {source.name!r}"
            raise RunEnded(Verdict.SOURCE_FAILED, text)
        check_marker(source, self.ask)

    def check_it_answers(self, is_in_doubt: bool) -> None:
        """Check, if there is doubt, that the source as a whole answers, and only a file has gone silent. Raises:
        RunEnded.
        """
        if is_in_doubt:
            self.count_top()

    def blame_the_repository(self, error: RunEnded) -> None:
        """Ask the repository after an error: a remote reports the same errors as a source. Raises: StorageFailed if it
        does not answer.
        """
        if self.task.location.directory is None and error.verdict is not Verdict.STOPPED:
            self.store.run("lsf", self.task.location.root, "--max-depth=1", "--low-level-retries=1", missing_ok=True)

    def _run(
        self,
        arguments: tuple[str, ...],
        on_line: Callable[[str], None],
        inherited: tuple[int, ...] = (),
        sign_of_life: Callable[[], object] | None = None,
        most: int = ANY,
    ) -> Judgement:
        """The verdict on an rclone that talks to the source. Raises: RunEnded if it was ended."""
        self.log = self._new_log()
        verb, *rest = arguments
        argv = command_line(verb, *common_arguments(self.task), *rest, most=most)
        on_each = line_by_line(on_line)
        ended = self.start(
            argv,
            self.environment,
            on_line=on_each,
            sign_of_life=sign_of_life or self._sign_of_life,
            inherited=inherited,
        )
        return judge(ended.exit_code, self.log, self.task.location.at(self.task.folder))

    def _new_log(self) -> RcloneLog:
        return RcloneLog(self._redacted)

    def _redacted(self, text: str) -> str:
        return redacted(text, [*self.task.source.hidden, *self.task.location.secrets])

    def _sign_of_life(self) -> tuple[int, ...]:
        self.check(self.log.transferred, self.log.growing)
        return self.log.activity

    def _take(self, line: str) -> None:
        if progress := self.log.take(line):
            self.progress(progress)
