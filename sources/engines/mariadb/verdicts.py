"""What the messages of mariadb-dump and mariadb mean. Their exit codes say only that something is wrong; the numbers of
errors are the same for MariaDB and MySQL."""

import re

from sources.engines.base import BackupTask, RunEnded, Verdict
from sources.engines.results import judge_ending
from sources.processes.runner import Ended, Ending

MESSAGE_LINES = 4
NUMBER = re.compile(r"\berror:? \(?(\d{4,5})\b|\((\d{4,5})\)$", re.IGNORECASE)
NOT_WRITABLE = re.compile(r"errno \d+ on write|Can't create/write to file|No space left|Disk quota exceeded")
SILENT = frozenset({1040, 1053, 1077, 1079, 1927, 2002, 2003, 2005, 2006, 2013, 2055})
"""No connection left, shutting down, killed, not reached, unknown host, gone, lost."""
REFUSED = frozenset({1045, 1129, 1130, 1698})
LACKS_A_RIGHT = frozenset({1044, 1142, 1143, 1227, 1370, 1683})
LOST = re.compile(r"unexpected eof|Connection reset|Broken pipe|timed out", re.IGNORECASE)
"""What an encrypted connection calls what is 2013 elsewhere."""
NO_PLUGIN = re.compile(r"plugin .* (could not|cannot) be loaded", re.IGNORECASE)
"""By MariaDB under the number of a lost connection, too."""


def judge(ended: Ended, task: BackupTask) -> None:
    """Raises: RunEnded, unless the program is done."""
    if ended.ending is not Ending.EXITED:
        raise RunEnded(*judge_ending(ended.ending, task))
    if ended.exit_code == 0:
        return
    message = message_of(ended)
    if NOT_WRITABLE.search(message):
        raise RunEnded(Verdict.REPOSITORY_FAILED, f"the dump cannot be written ({message})")
    if NO_PLUGIN.search(message):
        raise RunEnded(Verdict.SOURCE_FAILED, f"{SHOWN} ({message})")
    if LOST.search(message):
        raise RunEnded(Verdict.UNAVAILABLE, f"the source does not answer ({message})")
    for numbers, verdict, text in (
        (SILENT, Verdict.UNAVAILABLE, "the source does not answer"),
        (REFUSED, Verdict.SOURCE_FAILED, "the source refused the credentials: check its user and secret"),
        ({1049}, Verdict.SOURCE_FAILED, f"there is no database {task.source.path!r}: check the source's path"),
        (LACKS_A_RIGHT, Verdict.SOURCE_FAILED, "the source's user lacks a right, or there is no such database"),
        ({2026}, Verdict.SOURCE_FAILED, "no encrypted connection was made: see the options sslmode and sslrootcert"),
    ):  # fmt: skip
        if number_of(message) in numbers:
            raise RunEnded(verdict, f"{text} ({message})")
    if ended.exit_code < 0:
        raise RunEnded(Verdict.SOURCE_FAILED, f"the program was ended by signal {-ended.exit_code} from outside")
    raise RunEnded(Verdict.SOURCE_FAILED, message or f"the program ended with code {ended.exit_code}")


SHOWN = (
    "the server asks for the password in a way that would show it to another server in its place: name its socket, or "
    'its certificates, with the options "sslmode": "verify-full" and sslrootcert'
)


def number_of(message: str) -> int:
    """The number of the error that a message names; 0: none."""
    found = NUMBER.search(message)
    return int(found[1] or found[2]) if found else 0


def message_of(ended: Ended) -> str:
    """The program's errors in one line."""
    lines = [line.strip() for line in ended.last_lines if line.strip() and not line.startswith(("Warning: ", "---"))]
    return "; ".join(lines[-MESSAGE_LINES:])
