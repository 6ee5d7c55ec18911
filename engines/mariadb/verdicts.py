"""Verdicts on MariaDB's and MySQL's programs: the meaning of their errors. Exit codes show only that something is
wrong; the numbers of errors are the same for both.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from engines.base import BackupTask, RunEnded, Verdict
from engines.dumps import NOT_WRITTEN, REFUSED, SILENT, judge, message_of
from external.processes.runner import ProgramEnd

NUMBER = re.compile(r"\berror:? \(?(\d{4,5})\b|\((\d{4,5})\)$", re.IGNORECASE)
NOISE = re.compile(r"^(Warning: |---).*")
OWN_NOISE = re.compile(r"^(-+$|.*unknown (variable|option) .*loose).*|^[\w-]+: (?=\S)")
"""The parts to strike from lines of a program that continued after an error: its name, and options that only others of
its kind know.
"""
NOT_WRITABLE = re.compile(r"errno \d+ on write|Can't create/write to file|No space left|Disk quota exceeded")
LOST = re.compile(r"unexpected eof|Connection reset|Broken pipe|timed out", re.IGNORECASE)
"""Messages of an encrypted connection for the error that is 2013 elsewhere."""
LOST_CODE = 2
"""The code of mariadb-dump for an error of the server. It prints nothing for a connection that is lost while it sets
the character set of the next answer.
"""
AWAY = (1040, 1053, 1077, 1079, 1203, 1226, 1927, 2002, 2003, 2005, 2006, 2013, 2055)
"""Errors of a server that is away: no connection left, shutting down, killed, not reached, unknown host, gone, lost."""
NOT_LET_IN, NO_DATABASE, UNENCRYPTED = (1045, 1129, 1130, 1698), 1049, 2026
LOCKED = (1205, 1213, 1317, 1412, 1615, 1684, 1969, 3024)
"""A lock that was not obtained, a deadlock, a query that was ended; 1412: a table was altered since the dump began."""
OF_ALL = frozenset({*AWAY, *NOT_LET_IN, *LOCKED, NO_DATABASE, UNENCRYPTED})
NO_PLUGIN = re.compile(r"plugin .* (could not|cannot) be loaded", re.IGNORECASE)
"""MariaDB reports this under the number of a lost connection, too."""
SHOWN = (
    "the server asks for the password in a way that would show it to another server in its place: name its socket, or "
    'its certificates, with the options "sslmode": "verify-full" and sslrootcert'
)
LACKS_A_RIGHT = "the source's user lacks a right, or there is no such database"
STAYS_LOCKED = (
    "a table was locked or altered in the middle of the dump, or a query ended: let the window of the policy keep "
    "clear of migrations and upkeep"
)
WAITS = (
    "; if a table is locked, SHOW PROCESSLIST names the connections that wait for a table metadata lock, and "
    "the one that has it"
)
NOT_ENCRYPTED = "no encrypted connection was made: see the options sslmode and sslrootcert"


def judge_dump(ended: ProgramEnd, task: BackupTask) -> None:
    """Judge the exit of a program. Raises: RunEnded, unless it succeeded."""
    no_database = f"there is no database {task.source.path!r}: check the source's path"
    meanings = (
        (NOT_WRITABLE.search, Verdict.REPOSITORY_FAILED, NOT_WRITTEN),
        (NO_PLUGIN.search, Verdict.SOURCE_FAILED, SHOWN),
        (_numbered(*AWAY), Verdict.UNAVAILABLE, SILENT),
        (_numbered(*LOCKED), Verdict.NOT_FOR_NOW, STAYS_LOCKED),
        (LOST.search, Verdict.UNAVAILABLE, SILENT),
        (_numbered(*NOT_LET_IN), Verdict.SOURCE_FAILED, REFUSED),
        (_numbered(NO_DATABASE), Verdict.SOURCE_FAILED, no_database),
        (_numbered(1044, 1142, 1143, 1227, 1370, 1683), Verdict.SOURCE_FAILED, LACKS_A_RIGHT),
        (_numbered(UNENCRYPTED), Verdict.SOURCE_FAILED, NOT_ENCRYPTED),
    )
    message = errors_of(ended)
    if not message and ended.exit_code == LOST_CODE:
        raise RunEnded(Verdict.UNAVAILABLE, f"{SILENT} (the program ended with code {LOST_CODE} without a message)")
    judge(ended, "the program", message, meanings)


def judge_forced(ended: ProgramEnd, task: BackupTask) -> tuple[str, ...]:
    """Judge, like `judge_dump`, the exit of a program that continues after an error. Returns its messages about single
    objects that are left out or damaged, one each; an error that concerns all of them is raised.
    """
    for line in ended.last_lines:
        if number_of(line) in OF_ALL or NOT_WRITABLE.search(line) or LOST.search(line) or NO_PLUGIN.search(line):
            judge_dump(replace(ended, exit_code=ended.exit_code or LOST_CODE, last_lines=(line,)), task)
    said = tuple(dict.fromkeys(shown for each in ended.last_lines if (shown := OWN_NOISE.sub("", each).strip())))
    if not said or ended.exit_code < 0:
        judge_dump(ended, task)
    return said


def _numbered(*numbers: int) -> Callable[[str], bool]:
    return lambda message: number_of(message) in numbers


def number_of(message: str) -> int:
    """The number of the error that a message names; 0 if it names none."""
    found = NUMBER.search(message)
    return int(found[1] or found[2]) if found else 0


def errors_of(ended: ProgramEnd) -> str:
    """The program's errors in one line."""
    return message_of(ended, NOISE)
