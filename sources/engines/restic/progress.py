"""Reads what `restic backup --json` prints: how far it is, what it could not read, and its summary."""

import json
import time
from collections.abc import Callable
from typing import Any

from sources.engines.base import EngineProgress
from sources.storage.restic.verdicts import problem_of

LOOK_EVERY_SECONDS = 0.5
"""Lines between two looks are not parsed: a line about a running backup may name many files."""
KEPT = 200
STATUS, SUMMARY = '{"message_type":"status"', '{"message_type":"summary"'


class ResticProgress:
    """What restic has printed so far. `problems`: the first of `problem_count`; `summary`: empty until its end."""

    def __init__(self, on_progress: Callable[[EngineProgress], None]) -> None:
        self._on_progress = on_progress
        self._look_at = 0.0
        self.problems: list[str] = []
        self.problem_count = 0
        self.summary: dict[str, Any] = {}
        self.done = EngineProgress(0, 0, 0)
        self.growing = ""
        """A file that it reads."""

    def take(self, line: str) -> None:
        if line.startswith(STATUS):
            if (now := time.monotonic()) >= self._look_at:
                self._look_at = now + LOOK_EVERY_SECONDS
                self._take_status(_parsed(line))
        elif line.startswith(SUMMARY):
            self.summary = _parsed(line)
        elif problem := problem_of(line):
            self.problem_count += 1
            if len(self.problems) < KEPT:
                self.problems.append(problem)

    def _take_status(self, row: dict[str, Any]) -> None:
        names = ("bytes_done", "total_bytes", "files_done")
        self.done = EngineProgress(*(int(row.get(name, 0)) for name in names))
        self.growing = next(iter(row.get("current_files") or []), "")
        self._on_progress(self.done)


def _parsed(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
