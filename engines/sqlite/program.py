"""Copies a SQLite database while it is used, or reads one whole: a separate program, which can be killed.

    python -I -S program.py copy SOURCE TARGET SECONDS      SQLite's online backup of one file into another, empty one
    python -I -S program.py look FILE SECONDS               tests whether it can be read
    python -I -S program.py check FILE [UID GID]            PRAGMA integrity_check, and the rows of each table, as that
                                                            account, which need not reach this program

It prints the lines that `external.processes.orders` reads: one for each progress and each table, and its answer. It
takes its order from its argv and imports nothing of the project, since it runs, for a drill, as an account that may
open two files only: this one and the database. A database is opened for reading only, without extensions, and no code
in its schema is run with the rights of this program.

In WAL mode the copy is one read transaction, and writers continue. In other modes writers have the file between two
steps; a change by one of them makes SQLite start over, and after three starts the copy keeps them out until it is done,
as any reader does. Standard library only.
"""

import json
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

STEP_BYTES = 2**20
BEGINNINGS = 3
PROBLEMS = 20
LOOK_EVERY = 1_000_000
"""Instructions of SQLite between two signs of life."""
SAY_EVERY_SECONDS = 0.2
HARMLESS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON")
NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"


class SqliteFailed(Exception):
    """A failure. `why`: away, locked, journal, damaged, full or source; a text; and the name of SQLite's error, if it
    is one.
    """

    def __init__(self, why: str, text: str, name: str = "") -> None:
        super().__init__(why, text, name)


class ChangedTooOften(Exception):
    """A writer changed the database between two steps, too often."""


def copy(source: str, target: str, seconds: str) -> dict[str, Any]:
    """Copy a database into a file. `seconds`: the limit for a lock."""
    database = open_to_read(source, float(seconds))
    is_wal = database.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    try:
        _copy(database, target, float(seconds), holds=is_wal)
    except ChangedTooOften:
        _copy(database, target, float(seconds), holds=True)
    return {}


def _copy(database: sqlite3.Connection, target: str, seconds: float, *, holds: bool) -> None:
    os.truncate(target, 0)
    copied = sqlite3.connect(target)
    for pragma in ("journal_mode = OFF", "synchronous = OFF"):
        copied.execute(f"PRAGMA {pragma}")
    beginnings, least, locked_at = 1, float("inf"), None

    def look(status: int, remaining: int, total: int) -> None:
        nonlocal beginnings, least, locked_at
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            locked_at = locked_at or time.monotonic()
            if time.monotonic() - locked_at > seconds:
                raise SqliteFailed("locked", f"for {seconds:g} s")
            return
        locked_at = None
        beginnings, least = beginnings + (remaining > least), remaining
        if beginnings > BEGINNINGS and not holds:
            raise ChangedTooOften
        say_alive(total - remaining)

    size = database.execute("PRAGMA page_size").fetchone()[0]
    if holds:  # held until this connection is closed
        database.execute("BEGIN")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    database.backup(copied, pages=max(1, STEP_BYTES // size), progress=look, sleep=0.05)
    copied.close()


def look(file: str, seconds: str) -> dict[str, Any]:
    """Test whether a database can be read. `tables`: the number of its tables."""
    with open_to_read(file, float(seconds)) as database:
        return {"tables": len(database.execute(NAMES).fetchall())}


def check(file: str, *account: str) -> dict[str, Any]:
    """Read a database whole, and report the number of `rows` of each `table`. `unread`: the first tables that need a
    module which is not installed here.
    """
    if account:
        user, group = map(int, account)
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    with open_to_read(file, 0, immutable=True) as database:
        database.set_progress_handler(lambda: say_alive(0), LOOK_EVERY)
        problems = [row[0] for row in database.execute(f"PRAGMA integrity_check({PROBLEMS})")]
        if problems != ["ok"]:
            raise SqliteFailed("damaged", "; ".join(problems))
        unread = list[str]()
        for (name,) in database.execute(NAMES).fetchall():
            quoted = '"' + name.replace('"', '""') + '"'
            try:
                say({"table": name, "rows": database.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]})
            except sqlite3.OperationalError as error:
                if "no such module" not in str(error):
                    raise
                unread.append(f"{name}: {error}")
    return {"unread": unread[:PROBLEMS]}


def open_to_read(file: str, seconds: float, *, immutable: bool = False) -> sqlite3.Connection:
    """Open a database for reading only. Raises: SqliteFailed, OSError if it is not a file."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise SqliteFailed("source", "it is not a file")
    except FileNotFoundError:
        raise SqliteFailed("away", "there is no such file") from None
    flags = "mode=ro&immutable=1" if immutable else "mode=ro"
    database = sqlite3.connect(f"file:{quote(file)}?{flags}", uri=True, timeout=seconds, isolation_level=None)
    for pragma in HARMLESS:
        database.execute(f"PRAGMA {pragma}")
    return database


_printed_at = float("-inf")


def say_alive(pages: int) -> None:
    global _printed_at
    if (now := time.monotonic()) - _printed_at > SAY_EVERY_SECONDS:
        _printed_at = now
        say({"pages": pages})


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


ORDERS: dict[str, Callable[..., dict[str, Any]]] = {"copy": copy, "look": look, "check": check}
WHY = (
    ("SQLITE_READONLY", "journal"),
    ("SQLITE_FULL", "full"),
    ("SQLITE_IOERR_WRITE", "full"),
    ("SQLITE_BUSY", "locked"),
    ("SQLITE_LOCKED", "locked"),
    ("SQLITE_NOTADB", "damaged"),
    ("SQLITE_CORRUPT", "damaged"),
)


def main() -> None:
    do, *arguments = sys.argv[1:]
    try:
        say({"answer": ORDERS[do](*arguments)})
    except (SqliteFailed, sqlite3.Error, OSError) as error:
        say({"raised": "failed", "with": failed(error).args})


def failed(error: Exception) -> SqliteFailed:
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "")
        return SqliteFailed(next((why for start, why in WHY if name.startswith(start)), "source"), str(error), name)
    if isinstance(error, OSError):
        return SqliteFailed("source", error.strerror or str(error))
    assert isinstance(error, SqliteFailed)  # noqa: S101
    return error


if __name__ == "__main__":
    main()
