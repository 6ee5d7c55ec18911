"""What the exit codes and messages of pg_dump, pg_dumpall and pg_restore mean."""

import re

from sources.engines.base import BackupTask, RunEnded, Verdict
from sources.engines.results import judge_ending
from sources.processes.runner import Ended, Ending

MESSAGE_LINES = 4
PREFIX = re.compile(r"^pg_(dump|dumpall|restore): (error: |detail: |hint: )?")
NOT_WRITABLE = re.compile(
    r"^(?!.*Error message from server).*(No space left|Disk quota exceeded|could not write to (output )?file|"
    r"could not open output file|could not (close|fsync) file|Read-only file system)",
    re.IGNORECASE,
)
"""The server has a disk of its own, of which it speaks in the same words."""
REFUSED = re.compile(r"authentication failed|no password supplied|no pg_hba.conf entry|role .* does not exist")
NO_DATABASE = re.compile(r"database .* does not exist")
SILENT = re.compile(
    r"connection refused|timeout expired|timed out|could not translate host name|no route to host|"
    r"network is unreachable|host is down|connection reset|server closed the connection unexpectedly|"
    r"the database system is (starting up|shutting down|in recovery mode|not yet accepting connections)|"
    r"terminating connection due to|could not receive data from server|SSL SYSCALL error: EOF|"
    r"\.s\.PGSQL\.\d+\" failed: No such file or directory",
    re.IGNORECASE,
)


def judge_dump(ended: Ended, task: BackupTask) -> None:
    """Messages decide, since every error is exit code 1. Raises: RunEnded, unless the program is done."""
    if ended.ending is not Ending.EXITED:
        raise RunEnded(*judge_ending(ended.ending, task))
    if ended.exit_code == 0:
        return
    message = message_of(ended)
    for pattern, verdict, text in (
        (NOT_WRITABLE, Verdict.REPOSITORY_FAILED, "the dump cannot be written"),
        (REFUSED, Verdict.SOURCE_FAILED, "the source refused the credentials: check its user and secret"),
        (SILENT, Verdict.UNAVAILABLE, "the source does not answer"),
        (NO_DATABASE, Verdict.SOURCE_FAILED, f"there is no database {task.source.path!r}: check the source's path"),
    ):
        if pattern.search(message):
            raise RunEnded(verdict, f"{text} ({message})")
    if ended.exit_code < 0:
        raise RunEnded(Verdict.SOURCE_FAILED, f"pg_dump was ended by signal {-ended.exit_code} from outside")
    raise RunEnded(Verdict.SOURCE_FAILED, message or f"pg_dump ended with code {ended.exit_code}")


def judge_check(ended: Ended, task: BackupTask) -> None:
    if ended.ending is not Ending.EXITED:
        raise RunEnded(*judge_ending(ended.ending, task))
    if ended.exit_code:
        text = f"the dump was written but cannot be read back, so it was removed: {message_of(ended)}"
        raise RunEnded(Verdict.REPOSITORY_FAILED, text)


def message_of(ended: Ended) -> str:
    """The program's errors in one line, without its name."""
    lines = [PREFIX.sub("", line).strip() for line in ended.last_lines if line.strip()]
    return "; ".join(lines[-MESSAGE_LINES:])
