"""Engine sqlite: one SQLite database of the worker's host as one file, copied while it is used (`program.py`).

    database.sqlite    read back whole: PRAGMA integrity_check, and the rows of each table

The file is the backup: a restore is a copy of it. There are no roles or other globals that would belong to it.
"""

import json
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from engines.base import BackupTask, RunEnded, Verdict
from engines.dumps import Dump, DumpEngine
from engines.engine import Run
from external.processes.runner import Ended, StopSignal

DATABASE = "database.sqlite"
PROGRAM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("program.py")))
WHY = {
    "away": (Verdict.UNAVAILABLE, "the database is not there"),
    "locked": (Verdict.SOURCE_FAILED, "another program keeps the database locked"),
    "journal": (
        Verdict.SOURCE_FAILED,
        "the program that uses the database was interrupted as it wrote, and only a program that may write can repair "
        "that: start it, or open the database once with `sqlite3`",
    ),
    "damaged": (
        Verdict.SOURCE_FAILED,
        "the database is damaged, or none of SQLite: let `PRAGMA integrity_check` judge it, and restore a point",
    ),
    "full": (Verdict.REPOSITORY_FAILED, "the copy cannot be written"),
    "source": (Verdict.SOURCE_FAILED, "the database cannot be read"),
}
"""Why `program.py` failed → what it means."""


class SqliteEngine(DumpEngine):
    """Copies a source of kind sqlite."""

    name = "sqlite"

    def find_programs(self) -> None:
        """Python has all of it."""

    def write(self, dump: Dump) -> tuple[str, tuple[str, ...]]:
        file, task = dump.new_file(DATABASE, is_named=True), dump.task
        steps: list[object] = [None]

        def alive() -> tuple[int, object]:
            return dump.grows(), steps[-1]

        def keep(line: str) -> None:
            steps[-1] = line

        copy = (*PROGRAM, "copy", task.source.path, str(file), f"{task.connect_timeout:g}")
        judge(dump.start(copy, sign_of_life=alive, on_line=keep), task.source.path)
        rows = list[int]()
        check = (*PROGRAM, "check", str(file))
        found = judge(dump.start(check, on_line=lambda line: rows.extend(rows_in(line))), task.source.path)
        dump.tables, dump.rows = len(rows) + len(found["unread"]), sum(rows)
        return f"SQLite {sqlite3.sqlite_version}", ()

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        argv = (*PROGRAM, "look", task.source.path, f"{task.connect_timeout:g}")
        tables = judge(Run(task, stop).start(argv), task.source.path)["tables"]
        return f"the database may be read: it has {tables:,} tables"


def rows_in(line: str) -> list[int]:
    """The rows of a table, of which a line of the program's speaks; empty: it speaks of something else."""
    with suppress(ValueError, KeyError, TypeError):
        return [int(json.loads(line)["rows"])]
    return []


def judge(ended: Ended, path: str, *, in_its_words: bool = True) -> dict[str, Any]:
    """What the program found in the file at `path`. `in_its_words`: what SQLite says of it may be shown, and not only
    the name of its error. Raises: RunEnded."""
    found: dict[str, Any] = {}
    with suppress(IndexError, ValueError):
        found = dict(json.loads(ended.last_lines[-1]))
    if "done" in found:
        return dict(found["done"])
    if "failed" not in found:
        how = f"signal {-ended.exit_code}" if ended.exit_code < 0 else f"code {ended.exit_code}"
        raise RunEnded(Verdict.SOURCE_FAILED, f"the program that copies the database ended with {how}")
    verdict, text = WHY[found["failed"]]
    words = found["text"] if in_its_words else found.get("error", "")
    raise RunEnded(verdict, f"{text} ({path}: {words})" if words else f"{text} ({path})")
