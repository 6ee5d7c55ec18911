"""Reads rclone's log (`--use-json-log`): its progress, that of several in turn, and the errors with their files."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from engines.base import EngineProgress
from external.formatting import on_one_line
from external.processes.advice import without_middle
from external.processes.rows import number, row_of
from storage.places.servers import explained
from storage.points.refusals import is_altered, without_path
from storage.points.store import PIECE

MAX_PROBLEMS = 5_000
MESSAGE_LENGTH = 500

CONSEQUENCES = (
    "not deleting ",
    "Attempt ",
    "Can't retry any of the errors",
    "Failed to sync",
    "Failed to lsjson",
    "Failed to lsf",
    "Failed to copy with",
    "Fatal error received",
)
"""Lines that only repeat an earlier problem or follow from it."""
CANCELLING, LIMIT = "Cancelling sync due to fatal error: ", "max transfer limit reached"
PREAMBLE = re.compile(r'^(Failed to create file system for "[^"]*": |error reading source root directory: |NewFs: )+')
IGNORED = " - ignoring"
"""The end of rclone's message about an entry that it leaves out: a path out of the source, or one that equals another
one.
"""
BREAKDOWN = re.compile(r"^(fatal error: |SIGSEGV|panic: )")
"""The words of Go before a page of traces."""
SKIPPED_LINK = "Can't follow symlink"


@dataclass(frozen=True)
class LoggedError:
    """One error of rclone. `path` is the file concerned, relative to the source; empty if it concerns the whole run.
    `name`: the path as rclone gave it, which may contain a secret.
    """

    message: str
    path: str = ""
    name: str = field(default="", repr=False, compare=False)


class RcloneLog:
    """The log of rclone so far. Bounded: if there are many problems, the first and the last are kept, and all are
    counted. `redacted` takes the secrets out of a text, before it is cut: half of one would stay.
    """

    def __init__(self, redacted: Callable[[str], str] = str) -> None:
        self._redacted = redacted
        self.problems: list[LoggedError] = []
        self.problem_count = 0
        self.altered = set[str]()
        """The names of all files that arrived with another content, also of those that `problems` does not keep."""
        self.summary = ""
        self.transferred = 0
        self.growing = ""
        """The largest of the files that are being fetched, with its size so far."""
        self.transferring: tuple[str, ...] = ()
        """The names of these files."""
        self.activity: tuple[int, ...] = ()
        """Counts that change as long as rclone makes progress: bytes, files, checks, listed entries."""

    def take(self, line: str) -> EngineProgress | None:
        """Take a line of output. Returns rclone's progress if the line reports it. Never raises for any text."""
        entry = _parse(line)
        if entry is None:
            if BREAKDOWN.match(line):
                self._take_problem(line, {})
            elif line.strip():
                self.summary = self._explained(line.strip())[:MESSAGE_LENGTH]
            return None
        if isinstance(stats := entry.get("stats"), dict):
            return self._take_stats(stats)
        message, level = str(entry.get("msg", "")), entry.get("level")
        if message.startswith(SKIPPED_LINK):
            return None
        if message.startswith(CONSEQUENCES) or (message.startswith(CANCELLING) and LIMIT in message):
            self.summary = self._explained(message)[:MESSAGE_LENGTH]
        elif level in ("error", "critical", "alert", "emergency") or message.endswith(IGNORED):
            self._take_problem(message, entry)
        return None

    @property
    def everything(self) -> list[LoggedError]:
        """The problems; the last words of rclone if it named none."""
        return self.problems or ([LoggedError(self.summary)] if self.summary else [])

    def _take_problem(self, message: str, entry: dict[str, Any]) -> None:
        self.problem_count += 1
        whole_run = message.startswith("error reading source root") or "objectType" not in entry
        path = "" if whole_run else PIECE.sub("", str(entry.get("object", "")))
        text = cut(self._explained(PREAMBLE.sub("", message)))
        self.problems.append(error := LoggedError(text, self._redacted(path), path))
        if path and is_altered(without_path(text, error.path)):
            self.altered.add(path)
        if len(self.problems) > MAX_PROBLEMS:
            del self.problems[MAX_PROBLEMS // 2]

    def _take_stats(self, stats: dict[str, Any]) -> EngineProgress:
        numbers = {name: number(stats, name) for name in stats}
        self.transferred = numbers.get("bytes", 0)
        listed = stats.get("transferring")
        files = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        self.growing, self.transferring = self._largest(files), tuple(str(each.get("name", "")) for each in files)
        self.activity = tuple(numbers.get(name, 0) for name in ("bytes", "transfers", "checks", "listed", "deletes"))
        return EngineProgress(self.transferred, numbers.get("totalBytes", 0), numbers.get("transfers", 0))

    def _largest(self, files: list[dict[str, Any]]) -> str:
        largest = max(files, key=lambda each: number(each, "bytes"), default={})
        name = self._shortened(str(largest.get("name", "")))
        return f"{name} ({number(largest, 'bytes'):,} bytes so far)" if name else ""

    def _explained(self, message: str) -> str:
        return explained(without_middle(self._redacted(message)))

    def _shortened(self, text: str) -> str:
        return cut(on_one_line(self._redacted(text)))


class SummedProgress:
    """The sum of the progress of one rclone after another."""

    def __init__(self, on_progress: Callable[[EngineProgress], None]) -> None:
        self._on_progress = on_progress
        self._files = self._size = 0
        self._last = EngineProgress(0, 0, 0)
        self.total = 0

    def begin(self) -> None:
        """Begin to count the next rclone."""
        self._files, self._size = self._files + self._last.files_done, self._size + self._last.bytes_done
        self._last = EngineProgress(0, 0, 0)

    @property
    def size(self) -> int:
        return self._size + self._last.bytes_done

    def __call__(self, progress: EngineProgress) -> None:
        self._last = progress
        total = max(self.total, self._size + progress.bytes_total)
        done = replace(progress, bytes_done=self.size, bytes_total=total, files_done=self._files + progress.files_done)
        self._on_progress(done)


def cut(text: str) -> str:
    """The text without its middle, if it is long: a message ends with its reason, after paths of up to 4,096
    characters.
    """
    half = MESSAGE_LENGTH // 2 - 2
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:half]} … {text[-half:]}"


def _parse(line: str) -> dict[str, Any] | None:
    entry = row_of(line) if line.startswith("{") else None
    return entry if entry and "level" in entry else None
