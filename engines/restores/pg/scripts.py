r"""Plays the statements of a dump, without its rows, with psql: each by itself, and continues after errors.

psql answers with an SQLSTATE, whatever the language of the server, with the statement and the line where it ends; the
lines of the script show to which object it belongs. psql accepts no meta-command from a dump (`\!` runs programs): no
one knows the key that ends this restriction.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO

from engines.restores import playing
from engines.restores.pg.contents import IDENTIFIER
from engines.restores.pg.failures import StatementErrors, StatementFailure, is_harmless, readable, to_be_tried
from engines.restores.pg.loader import Loader
from storage.restoring.base import TargetFailed

HEADER = re.compile(rb"-- (?:Data for )?Name: ")
FIRST_SECTION = "pre-data"
IS_THERE = "42P06"
SPACE = re.compile(rf"SET default_tablespace = ({IDENTIFIER});")
SPACE_KIND = "TABLESPACE "
SESSION = "the session"
NO_HEADER = 0, SESSION, ""
FIRST = (
    "SET statement_timeout = 0;",
    "SET check_function_bodies = false;",
    "SELECT pg_catalog.set_config('search_path', '', false);",
    "SET client_min_messages = warning;",
)
LOST = 2
"""The code of psql when its connection was lost."""


def play(loader: Loader, dump: int, section: str) -> list[StatementFailure]:
    """Play a section of a dump. Returns the failures. Raises: TargetFailed; what `run` raises."""
    with loader.file() as script:
        write(loader, dump, section, script, f"--restrict-key={playing.new_key()}", *loader.left_out)
        made = loader.make_ahead(script) if section == FIRST_SECTION else set()
        return [each for each in _played(loader, script) if not _is_made(each, made)]


def write(loader: Loader, dump: int, section: str, script: IO[bytes], *options: str) -> None:
    """Write the statements of a section into a file. Raises: TargetFailed for a dump that cannot be read."""
    number = script.fileno()
    ended = loader.read(dump, (f"--section={section}", f"--file=/dev/fd/{number}", *options), lambda line: None, number)
    if ended.exit_code:
        raise TargetFailed(f"its dump cannot be read: {' '.join(ended.last_lines[-1:])}")
    script.seek(0)


def play_again(loader: Loader, failures: list[StatementFailure], encoding: str) -> list[StatementFailure]:
    """Play failed statements again. Returns those that fail again, each with its new error. `encoding`: of the dump,
    and so of their statements.
    """
    known = [each for each in failures if each.what.startswith(SPACE_KIND)]
    if not (failures := [each for each in failures if each not in known]):
        return known
    with loader.file() as script:
        head = "\n".join((rf"\restrict {playing.new_key()}", f"SET client_encoding = '{encoding}';", *FIRST))
        script.write(head.encode())
        ends, at = list[int](), head.count("\n") + 1
        for each in failures:
            text = f"\n{each.statement.rstrip()}\n"
            at += text.count("\n")
            ends.append(at)
            script.write(text.encode(errors="surrogateescape"))
        failed = {bisect_right(ends, line - 1): each for line, each in _errors(loader, script)}
    again = [(each, failed[number]) for number, each in enumerate(failures) if number in failed]
    elsewhere = [each for number, each in enumerate(failures) if number not in failed and each.space]
    found = [replace(each, text=now.text, state=now.state) for each, now in again]
    return [*known, *_each_once(map(_into_the_usual, elsewhere)), *found]


def _into_the_usual(failure: StatementFailure) -> StatementFailure:
    """A failure about the tablespace of an object that was made by its statement alone: it is in the usual one."""
    return replace(failure, what=f"{SPACE_KIND}{failure.space}", statement=f"SET default_tablespace = {failure.space};")


def each_space_once(failures: list[StatementFailure]) -> list[StatementFailure]:
    """The failures, with each tablespace named once, however many objects were to be in it."""
    spaces = _each_once(each for each in failures if each.what.startswith(SPACE_KIND))
    return [*spaces, *(each for each in failures if not each.what.startswith(SPACE_KIND))]


def _each_once(failures: Iterable[StatementFailure]) -> list[StatementFailure]:
    return list({each.what: each for each in failures}.values())


def _played(loader: Loader, script: IO[bytes]) -> list[StatementFailure]:
    script.seek(0)
    headers = list(_headers(script))
    lines = [line for line, _, _ in headers]
    failures, spaces = [], []
    for line, each in _errors(loader, script):
        at = bisect_right(lines, line)
        if space := SPACE.fullmatch(each.statement.strip()):  # the objects that follow go into the usual one
            spaces.append(replace(each, what=f"{SPACE_KIND}{space[1]}"))
            continue
        _, each.what, each.space = headers[at - 1] if at and not each.statement.startswith("SET ") else NO_HEADER
        failures.append(each)
    lacking = {each.what for each in spaces}
    for each in failures:
        each.space = "" if f"{SPACE_KIND}{each.space}" in lacking else each.space
    return [*_each_once(spaces), *failures]


def _errors(loader: Loader, script: IO[bytes]) -> list[tuple[int, StatementFailure]]:
    script.flush()
    read = StatementErrors()
    how = ("--output=/dev/null", "--echo-errors", "--set=VERBOSITY=verbose")
    ended = loader.ask(script.fileno(), read.take, *how)
    if ended.exit_code:
        said = readable(read.away) or " ".join(ended.last_lines[-1:])
        raise TargetFailed(f"the server went away: {said}" if ended.exit_code == LOST else f"psql: {said}")
    return [(line, to_be_tried(each)) for line, each in read.found if not is_harmless(each)]


def _is_made(failure: StatementFailure, schemas: set[str]) -> bool:
    """True if it is a schema that was made before."""
    return failure.state == IS_THERE and failure.what.removeprefix("SCHEMA ") in schemas


def _headers(script: IO[bytes]) -> Iterator[tuple[int, str, str]]:
    """The line of each object, its kind and name, and the tablespace that is set for it."""
    space = ""
    for number, line in enumerate(script, 1):
        if what := object_of(line):
            yield number, what, space
        elif line.startswith(b"SET default_tablespace = "):
            space = named[1] if (named := SPACE.fullmatch(line.decode(errors="surrogateescape").strip())) else ""


def object_of(line: bytes) -> str:
    """The kind and name of the object of a header line; empty for any other line. An expression would try each
    place in a long line of a function's body from each other one.
    """
    if not (begun := HEADER.match(line)) or not line.endswith(b"\n"):
        return ""
    before, has_owner, _ = line[begun.end() :].rpartition(b"; Owner: ")
    before, has_schema, schema = before.rpartition(b"; Schema: ")
    name, has_kind, kind = before.rpartition(b"; Type: ")
    if not (has_owner and has_schema and has_kind):
        return ""
    return (kind + b" " + (name if schema == b"-" else schema + b"." + name)).decode(errors="surrogateescape")
