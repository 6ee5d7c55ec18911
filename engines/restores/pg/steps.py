"""Loads a dump into a database of PostgreSQL: everything that can be loaded. An object that its server does not accept
is named, and costs no other one.

1. psql makes the objects (`scripts.py`), each statement by itself, and continues after errors.
2. pg_restore loads the rows, each table by itself. psql does not: after a COPY that fails it would run rows as SQL.
3. psql makes indexes, constraints, triggers and whatever else comes after rows.
4. Failed statements are tried once more, now that all others are there: rows whose CHECK asks another table come in.
5. The rows of each table are counted and compared with those of the dump.
"""

import re
from dataclasses import dataclass, field

from engines.restores.pg import scripts
from engines.restores.pg.contents import DatabaseContents
from engines.restores.pg.failures import RowErrors, StatementFailure, is_harmless, readable
from engines.restores.pg.loader import Loader
from storage.restoring.base import TargetFailed

WENT_AWAY = re.compile(
    r"^(?!.*ERROR: ).*(no connection to the server|server closed the connection|connection not open|SSL connection has|"
    r"could not (receive|send) data|SSL SYSCALL|lost synchronization|connection to server)"
)
STATE = re.compile(r"psql:.*: [^:]+:  ([0-9A-Z]{5})$")
COUNTED = re.compile(r"(\d+)\|(\d+)")
AGAIN = 200
"""The most tables whose rows are tried again."""


@dataclass
class LoadResult:
    """The result of loading: rows by table as they were counted, failures, tables that are not as in the dump, things
    that were made as a substitute, and things to know about it, in sentences.
    """

    tables: dict[str, int] = field(default_factory=dict)
    failures: list[StatementFailure] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    made_up: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load(loader: Loader, dump: int, contents: DatabaseContents) -> LoadResult:
    """Load everything that can be loaded; block until done. Raises: TargetFailed when the server went away; what `run`
    raises.
    """
    before = scripts.play(loader, dump, "pre-data")
    made_up = list[str]()
    while made := loader.make_up(before):
        made_up += made
        before = scripts.play_again(loader, before, contents.encoding)
    rows = _load_rows(loader, dump, contents)
    after = scripts.play(loader, dump, "post-data")
    before = scripts.play_again(loader, before, contents.encoding)
    for each in rows[:AGAIN]:
        each.state = _load_again(loader, dump, each)
    rows = [each for number, each in enumerate(rows) if number >= AGAIN or each.state]
    failures = scripts.each_space_once([*before, *rows, *scripts.play_again(loader, after, contents.encoding)])
    done = LoadResult(failures=failures, made_up=made_up)
    _count(loader, contents, done)
    return done


def _load_rows(loader: Loader, dump: int, contents: DatabaseContents) -> list[StatementFailure]:
    read = RowErrors(contents.objects)
    options = ("--section=data", "--verbose", "--no-password", *loader.left_out)
    ended = loader.read(dump, (*options, *loader.to), read.take)
    if ended.exit_code and not read.found:
        raise TargetFailed(f"pg_restore ended with code {ended.exit_code}: {' '.join(ended.last_lines[-1:])}")
    for each in read.found:
        first, *more = each.text.split("\n")
        if WENT_AWAY.search(first) or any(line.startswith("server closed the connection") for line in more):
            raise TargetFailed(f"the server went away: {readable(first)}")
    return [each for each in read.found if not is_harmless(each)]


def _load_again(loader: Loader, dump: int, failure: StatementFailure) -> str:
    """Load the rows of one entry of the dump again, all or none. Returns the SQLSTATE; empty if they are there now."""
    found = list[str]()

    def take(line: str) -> None:
        if state := STATE.match(line):
            found.append(state[1])

    with loader.file() as wanted:
        wanted.write(f"{failure.entry};\n".encode())
        wanted.flush()
        number = wanted.fileno()
        options = (*loader.left_out, f"--use-list=/dev/fd/{number}")
        ended = loader.play(dump, options, (number,), take)
    return "" if ended.exit_code == 0 else next(iter(found), failure.state or "?")


def _count(loader: Loader, contents: DatabaseContents, done: LoadResult) -> None:
    tables = list(contents.rows)

    def take(line: str) -> None:
        if counted := COUNTED.fullmatch(line):
            done.tables[contents.shown(tables[int(counted[1])])] = int(counted[2])

    # with row-level security a role would count only the rows that it may see
    first = [f"SET client_encoding = '{contents.encoding}';", "SET row_security = off;"]
    loader.ask(
        [*first, *(f"SELECT {number}, count(*) FROM ONLY {table};" for number, table in enumerate(tables))], take
    )
    for name, number in contents.rows.items():
        shown = contents.shown(name)
        if (rows := done.tables.get(shown)) != number:
            there = "is missing" if rows is None else f"has {rows:,} rows"
            done.lacking.append(f"table {shown} {there}, and the dump holds {number:,}")
