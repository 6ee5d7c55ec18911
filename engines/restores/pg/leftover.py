"""A file of the objects that a restore could not make, for users who may restore: its statements, with the errors as
comments.

Errors of rows quote them, so their texts go to this place alone. It is removed with the row of its restore.
"""

import os
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from engines.restores.pg.failures import StatementFailure
from engines.restores.pg.steps import LoadResult
from storage.restoring.base import KEPT_TEXTS, Report

FOLDER = "restore-errors"
LONGEST = 2**24


def write(parent: Path, name: str, failures: Iterable[StatementFailure], heading: str) -> Path:
    """Write the file and return it. `name`: of the point and the database."""
    folder = parent / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.sql"
    file.unlink(missing_ok=True)
    with os.fdopen(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w", errors="surrogateescape"
    ) as written:
        written.write(f"{_comment(heading)}\n")
        for each in failures:
            of_rows = (
                f"pg_restore --data-only --use-list=LIST database.dump, with LIST a file of the line {each.entry};"
            )
            statement = each.statement.strip() or _comment(f"its rows: {of_rows}")
            written.write(f"\n{_comment(str(each))}\n{_comment(each.text)}\n{statement}\n")
            if written.tell() > LONGEST:
                written.write(_comment("… and more"))
                break
    return file


def note(report: Report, loaded: LoadResult, parent: Path, name: str, run: str) -> None:
    """Note the things that are not as in the dump: in the report of its restore, and in the file. `run`: how its
    statements are run.
    """
    report.what = "object"
    report.failed = [*map(str, loaded.failures), *loaded.lacking][:KEPT_TEXTS]
    report.not_set += loaded.notes
    report.failed_files = len(loaded.failures) + len(loaded.lacking)
    if loaded.failures:
        file = write(parent, name, loaded.failures, f"Statements that failed in the database of {name}, and why")
        report.elsewhere = (
            f"Everything else is there. {file} on the worker's host has the statements that failed, with their "
            f"errors: create what they need, and run them in that database{run}"
        )


def prune(parent: Path, before: datetime) -> None:
    """Remove the files that were written before that instant."""
    for file in (parent / FOLDER).glob("*.sql"):
        if file.stat().st_mtime < before.timestamp():
            file.unlink(missing_ok=True)


def _comment(text: str) -> str:
    return "\n".join(f"-- {line}" for line in text.splitlines())
