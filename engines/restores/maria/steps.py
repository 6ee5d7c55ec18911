"""Loads a dump into a new database of MariaDB: everything that can be loaded. An object that its server does not accept
is named, and costs no other one.

1. An account with rights to that database alone loads the dump, and continues after errors.
2. Objects of other accounts, which it may not make, are made with the source's account (`at_source.py`), until no
   further one can be made: a view may depend on another one. Events are not made while the server runs events: one
   with a short interval would run before anyone has looked.
3. The rows of each table are counted and compared with those of the dump.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from engines.base import SourceSpec
from engines.mariadb.catalogue import FACT
from engines.mariadb.engine import DATABASE
from engines.mariadb.reading import DumpContents
from engines.restores import loading
from engines.restores.maria.at_source import AtSource, LoadError
from engines.restores.maria.statements import DumpedStatement, statements_at
from engines.restores.pg.failures import StatementFailure, first_words
from engines.restores.pg.steps import LoadResult

HARMLESS = frozenset({1193})
"""The error of a setting that programs of another version make for themselves."""
SCHEDULER = f"SELECT CONCAT('{FACT}', @@GLOBAL.event_scheduler);"
Failed = dict[int, tuple[LoadError, DumpedStatement]]
"""Line of the dump → the error, and the statement that failed."""
SHOWN = ("sql_mode", "collation_connection", "time_zone")
"""Session settings without which a statement would make something else."""
RUNS_EVENTS = "the server runs events, so it was not made: run this statement once it may run"


@dataclass
class NotLoaded(StatementFailure):
    """A statement that the server did not accept. `words`: its first words, for a list."""

    words: str = ""

    def __str__(self) -> str:
        return ": ".join(each for each in (self.what, f"error {self.state}" if self.state else "", self.words) if each)


def load(
    server: AtSource, database: str, files: Path, contents: DumpContents, account: SourceSpec | None
) -> LoadResult:
    """Load everything that can be loaded; block until done. `account`: the one with rights to the database alone; if it
    is None, the source's account is used, and loading ends at the first error. Raises: what `AtSource` raises.
    """
    errors = server.load(database, files, account or server.source, goes_on=account is not None)
    failed = failures_of(files, errors, server.store.check_stop)
    _define(server, database, failed)
    done = LoadResult(failures=not_loaded(failed.values()), tables=server.count(database, contents))
    done.lacking = lacking(contents, done.tables)
    return done


def _define(server: AtSource, database: str, failed: Failed) -> None:
    """Make objects of other accounts, and take them out of the failed ones."""
    left = [statement for _, statement in failed.values() if statement.definition]
    if any(each.definition == "event" for each in left) and server.ask(SCHEDULER) not in (["OFF"], ["DISABLED"]):
        for each in left:
            if each.definition == "event":
                failed[each.line] = LoadError(each.line, 0, RUNS_EVENTS), each
        left = [each for each in left if each.definition != "event"]
    while left:
        refused = server.define(database, left)
        for each in left:
            failed.pop(each.line)
        failed |= {each.line: (refused[each.line], each) for each in left if each.line in refused}
        if len(refused) == len(left):
            break
        left = [each for each in left if each.line in refused]


def failures_of(files: Path, errors: Iterable[LoadError], on_piece: Callable[[], object]) -> Failed:
    """The errors that matter, with their statements."""
    first = {each.line: each for each in reversed([each for each in errors if each.number not in HARMLESS])}
    if not first:
        return {}
    with loading.opened(files, DATABASE) as dump, open(dump, "rb", closefd=False) as content:
        found = statements_at(content, first.keys(), on_piece)
    return {line: (first[line], found.get(line, DumpedStatement(line, "a statement"))) for line in sorted(first)}


def not_loaded(found: Iterable[tuple[LoadError, DumpedStatement]]) -> list[StatementFailure]:
    """The failed statements as failures of a restore, in the order of the dump."""
    return [_not_loaded(*each) for each in sorted(found, key=lambda pair: pair[1].line)]


def lacking(contents: DumpContents, counted: dict[str, int]) -> list[str]:
    """Tables that are not as in the dump, in sentences."""
    found = []
    for name, number in contents.rows.items():
        if (rows := counted.get(name)) != number:
            there = "is missing" if rows is None else f"has {rows:,} rows"
            found.append(f"table {name} {there}, and the dump holds {number:,}")
    return found


def _not_loaded(error: LoadError, statement: DumpedStatement) -> NotLoaded:
    sql = statement.text.decode(errors="replace")
    text = f"ERROR {error.number}: {error.text}" if error.number else error.text
    words = first_words(sql) if sql else ""
    settings = "".join(f"SET {each} = '{statement.settings[each]}';\n" for each in SHOWN if each in statement.settings)
    whole = (
        f"{settings}DELIMITER ;;\n{sql} ;;\nDELIMITER ;" if sql else f"-- from line {statement.line} of {DATABASE} on"
    )
    return NotLoaded(statement.what, statement=whole, text=text, state=str(error.number or ""), words=words)
