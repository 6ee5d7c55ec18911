"""The meanings of restic's exit codes and fatal texts, in one table. The texts were seen with restic 0.14, which exits
with 1 for all of them; the exit codes 10, 11 and 12 are those of 0.17 according to its documentation.
"""

import os
import re
from collections.abc import Iterable
from enum import Enum

from external.processes.advice import without_advice
from external.processes.repeated_texts import without_answers
from external.processes.rows import row_of

PARTIAL = 3
"""Some of the source could not be read; the snapshot is valid."""
FATAL_LINES = 4


class ResticTrouble(Enum):
    """Reasons why restic failed."""

    NO_REPOSITORY = "there is no restic repository"
    LOCKED = "the repository is locked by another restic"
    WRONG_KEY = "the key is not that of the repository"
    NOT_WRITABLE = "the repository cannot be written"
    NO_SPACE = "no space is left in the repository"
    NO_SOURCE = "the path to back up is not there"
    NOTHING = "there is nothing to back up that could be read"
    NO_SNAPSHOT = "there is no such snapshot"
    EXISTS = "there is a repository already"
    UNREACHABLE = "the repository does not answer"
    DAMAGED = "the repository's contents are damaged"
    OTHER = "restic failed"


EXIT_CODES = {10: ResticTrouble.NO_REPOSITORY, 11: ResticTrouble.LOCKED, 12: ResticTrouble.WRONG_KEY}

TEXTS = (
    (ResticTrouble.LOCKED, r"repository is already locked|unable to create lock in backend.{0,2000}?already locked"),
    (ResticTrouble.WRONG_KEY, r"wrong password or no key found"),
    (ResticTrouble.NO_SPACE, r"no space left on device|disk quota exceeded|\(507\)|507 insufficient storage"),
    (
        ResticTrouble.NOT_WRITABLE,
        r"\blocks?/[0-9a-f].{0,2000}?(read-only file system|permission denied|access ?denied|403 forbidden)",
    ),
    (
        ResticTrouble.UNREACHABLE,
        r"connection refused|no such host|i/o timeout|timed out|no route to host|network is unreachable",
    ),
    (ResticTrouble.EXISTS, r"config file already exists|config already initialized"),
    (ResticTrouble.NO_SNAPSHOT, r"no matching ID found|no snapshot found"),
    (
        ResticTrouble.DAMAGED,
        r"ciphertext verification failed|hash does not match|"
        r"data/[0-9a-f/]{1,100}>?:? (does not exist|no such file|input/output error)",
    ),
    (ResticTrouble.NO_SOURCE, r"all (target|source) directories/files do not exist"),
    (ResticTrouble.NOTHING, r"snapshot is empty"),
    (
        ResticTrouble.NO_REPOSITORY,
        r"unable to open config file.{0,2000}?(no such file|does not exist|not found|404)|repository does not exist",
    ),
)
_PATTERNS = tuple((trouble, re.compile(text, re.IGNORECASE | re.DOTALL)) for trouble, text in TEXTS)
NOT_FOR_PEOPLE = re.compile(r"\{|\[[{\d]|the `unlock`|snapshot [0-9a-f]{8} (of|saved)|copy started")
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def trouble_of(exit_code: int, text: str) -> ResticTrouble:
    """The meaning of an exit code other than 0 and `PARTIAL`; `text`: the last text that restic printed."""
    if found := EXIT_CODES.get(exit_code):
        return found
    return next((trouble for trouble, pattern in _PATTERNS if pattern.search(text)), ResticTrouble.OTHER)


def text_of(lines: Iterable[str]) -> str:
    """The last text of restic that is for users, in one line: without progress, and without lines that have no space,
    which are steps of its program.
    """
    plain = [_TERMINAL.sub("", each).strip() for each in lines]
    shown = [each.removeprefix("Fatal: ") for each in plain if " " in each and not NOT_FOR_PEOPLE.match(each)]
    return without_advice("; ".join(map(without_answers, shown[-FATAL_LINES:])))


def problem_of(line: str) -> str | None:
    """A line about a file that could not be read, in the form `path: why`. None if the line is about something else."""
    if not line.startswith('{"message_type":"error"'):
        return None
    if (row := row_of(line)) is None:
        return None
    if row.get("during") == "scan":  # named once more when it is read
        return None
    error = row.get("error")
    why = error.get("Err", error) if isinstance(error, dict) else error
    if isinstance(why, dict):  # later versions: {"message": …}
        why = why.get("message", why)
    if isinstance(why, int):
        why = os.strerror(why) if 0 < why < 2**31 else ""
    return f"{row.get('item', '')}: {why or 'restic gives no reason'}"
