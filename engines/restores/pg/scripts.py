r"""Plays the statements of a dump, without its rows, by psql: each by itself, on and on after errors.

psql answers with an SQLSTATE, in every language of the server's, with the statement and the line where it ends; the
lines of the script say of which object it is. psql takes no command of its own from a dump (`\!` runs programs): the
key that ends this is known to nobody.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

from engines.restores import playing
from engines.restores.pg.failures import Failure, StatementErrors, is_harmless
from engines.restores.pg.loader import Loader
from storage.points.places import TargetFailed

HEADER = re.compile(rb"-- (?:Data for )?Name: (.*); Type: (.*); Schema: (.*); Owner: .*\n")
SESSION = "the session"
FIRST = (
    "SET statement_timeout = 0;",
    "SET check_function_bodies = false;",
    "SELECT pg_catalog.set_config('search_path', '', false);",
    "SET client_min_messages = warning;",
)
LOST = 2
"""psql's code when its connection was lost."""


def play(loader: Loader, dump: int, section: str) -> list[Failure]:
    """Play a section of a dump. Returns what failed. Raises: TargetFailed; what `run` raises."""
    key = f"--restrict-key={playing.new_key()}"
    with loader.file() as script:
        number = script.fileno()
        options = (f"--section={section}", f"--file=/dev/fd/{number}", key, *loader.left_out)
        ended = loader.read(dump, options, lambda line: None, number)
        if ended.exit_code:
            raise TargetFailed(f"its dump cannot be read: {' '.join(ended.last_lines[-1:])}")
        return _played(loader, script)


def play_again(loader: Loader, failures: list[Failure]) -> list[Failure]:
    """Those that fail again, each as it does now."""
    if not failures:
        return []
    with loader.file() as script:
        head = "\n".join((rf"\restrict {playing.new_key()}", *FIRST))
        script.write(head.encode())
        ends, at = list[int](), head.count("\n") + 1
        for each in failures:
            text = f"\n{each.statement.rstrip()}\n"
            at += text.count("\n")
            ends.append(at)
            script.write(text.encode(errors="surrogateescape"))
        failed = {bisect_right(ends, line - 1): each for line, each in _errors(loader, script)}
    again = [(each, failed[number]) for number, each in enumerate(failures) if number in failed]
    return [replace(each, text=now.text, state=now.state) for each, now in again]


def _played(loader: Loader, script: IO[bytes]) -> list[Failure]:
    script.seek(0)
    headers = list(_headers(script))
    lines = [line for line, _ in headers]
    failures = []
    for line, each in _errors(loader, script):
        at = bisect_right(lines, line)
        each.what = headers[at - 1][1] if at and not each.statement.startswith("SET ") else SESSION
        failures.append(each)
    return failures


def _errors(loader: Loader, script: IO[bytes]) -> list[tuple[int, Failure]]:
    script.flush()
    read = StatementErrors()
    how = ("--output=/dev/null", "--echo-errors", "--set=VERBOSITY=verbose")
    ended = loader.ask(script.fileno(), read.take, *how)
    if ended.exit_code:
        said = read.away or " ".join(ended.last_lines[-1:])
        raise TargetFailed(f"the server went away: {said}" if ended.exit_code == LOST else f"psql: {said}")
    return [(line, each) for line, each in read.found if not is_harmless(each)]


def _headers(script: IO[bytes]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(script, 1):
        if found := HEADER.fullmatch(line):
            name, kind, schema = (each.decode(errors="replace") for each in found.groups())
            yield number, f"{kind} {name if schema == '-' else f'{schema}.{name}'}"
