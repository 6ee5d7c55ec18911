"""Opens a restored SQLite database for reading, checks it whole, and counts it table by table, as an account without
rights where that is possible: its bytes come from outside."""

import json
import math
import os
from contextlib import suppress
from pathlib import Path

from sources.engines.base import RunEnded
from sources.engines.limits import Space
from sources.engines.sqlite.engine import DATABASE, PROGRAM, judge
from sources.processes import runner
from sources.processes.runner import Command, Ending
from sources.restores.scratch import Database, Scratch
from sources.storage.store import Stopped, Store


def restored(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Look into the database that lies in `files`. Raises: Stopped, OSError."""
    if scratch.account:
        for each in (files, files / DATABASE):
            os.chown(each, *scratch.account, follow_symlinks=False)
    argv = (*PROGRAM, "check", str(files / DATABASE), *map(str, scratch.account or ()))
    tables = dict[str, int]()

    def take(line: str) -> None:
        with suppress(ValueError):
            if "table" in (said := json.loads(line)):
                tables[said["table"]] = said["rows"]

    ended = runner.run(Command(argv, stall_timeout=math.inf, grace=store.grace), stop=store.stop, on_line=take)
    if ended.ending is Ending.STOPPED:
        raise Stopped
    try:
        found = judge(ended, DATABASE)
    except RunEnded as error:
        return Database(wrong=[str(error)])
    return Database(tables, notes=found["unread"])
