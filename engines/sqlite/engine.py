"""Engine sqlite: one SQLite database of the worker's host as one file, copied while it is used (`program.py`).

    database.sqlite    read back whole: PRAGMA integrity_check, and the rows of each table

The file is the backup: a restore is a copy of the file. There are no roles or other globals that belong to it.
"""

import sqlite3
import sys
from pathlib import Path
from typing import Any

from engines.base import BackupTask, RunEnded, Verdict
from engines.dumps import Dump, DumpEngine
from engines.engine import EngineRun
from external.processes.orders import NoAnswer, Order
from external.processes.runner import ProgramEnd, StopSignal
from external.processes.serving import Program

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
        "the database is damaged, or not a SQLite database: let `PRAGMA integrity_check` judge it, and restore a point",
    ),
    "full": (Verdict.REPOSITORY_FAILED, "the copy cannot be written"),
    "source": (Verdict.SOURCE_FAILED, "the database cannot be read"),
}
"""The reason why `program.py` failed → its verdict and text."""


class DatabaseFailed(Exception):
    """A failure of `program.py`: the reason, as a key of WHY, a text, and the name of SQLite's error."""

    def __init__(self, why: str, text: str, name: str) -> None:
        super().__init__(text)
        self.why, self.text, self.name = why, text, name


class SqliteEngine(DumpEngine):
    """The engine of sources of kind sqlite."""

    name = "sqlite"

    def find_programs(self) -> None:
        """Find nothing, since Python has everything that is needed."""

    def write(self, dump: Dump) -> tuple[str, tuple[str, ...]]:
        file, task = dump.new_file(DATABASE, is_named=True), dump.task
        copying = new_order()
        copy = (*PROGRAM, "copy", task.source.path, str(file), f"{task.connect_timeout:g}")
        ended = dump.start(copy, sign_of_life=lambda: (dump.grows(), copying.signs), on_line=copying.on_line)
        answer_of(copying, ended, task.source.path)
        tables = dict[str, int]()
        checking = new_order(tables)
        ended = dump.start((*PROGRAM, "check", str(file)), on_line=checking.on_line)
        found = answer_of(checking, ended, task.source.path)
        dump.tables, dump.rows = len(tables) + len(found["unread"]), sum(tables.values())
        return f"SQLite {sqlite3.sqlite_version}", ()

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        looking = new_order()
        argv = (*PROGRAM, "look", task.source.path, f"{task.connect_timeout:g}")
        ended = EngineRun(task, stop).start(argv, on_line=looking.on_line)
        tables = answer_of(looking, ended, task.source.path)["tables"]
        return f"the database may be read: it has {tables:,} tables"


def new_order(tables: dict[str, int] | None = None) -> Order:
    """An order that the argv of `program.py` contains. `tables`: receives the rows of each table that it counts."""

    def take(line: dict[str, Any]) -> None:
        if tables is not None and "table" in line:
            tables[line["table"]] = line["rows"]

    return Order(Program(__name__, {}, {"failed": DatabaseFailed}), "", {}, take=take)


def answer_of(order: Order, ended: ProgramEnd, path: str, *, in_its_words: bool = True) -> dict[str, Any]:
    """The program's findings in the file at `path`. `in_its_words`: True if SQLite's message may be shown, and not only
    the name of its error. Raises: RunEnded.
    """
    try:
        return dict(order.answer(ended))
    except DatabaseFailed as error:
        verdict, text = WHY[error.why]
        words = error.text if in_its_words else error.name
        raise RunEnded(verdict, f"{text} ({path}: {words})" if words else f"{text} ({path})") from None
    except NoAnswer:
        how = f"signal {-ended.exit_code}" if ended.exit_code < 0 else f"code {ended.exit_code}"
        raise RunEnded(Verdict.SOURCE_FAILED, f"the program that copies the database ended with {how}") from None
