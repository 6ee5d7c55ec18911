"""The meaning of rclone's exit codes and messages. Every entry was seen with rclone 1.75 against its servers.

The exit code does not distinguish the source from the repository, nor a refusal from an absence, so messages decide
first, in the order of the table; the exit code decides the cases that no message did.
"""

import re
from dataclasses import dataclass

from engines.base import Verdict
from engines.rclone.log import BREAKDOWN, IGNORED, LoggedError, RcloneLog, cut
from storage.points.refusals import spellings_of
from storage.points.store import PARTIAL_SUFFIX

BROKE_DOWN = (
    "rclone broke down, such as when a source lists more than fits in BACKUPSCHED_ENGINE_MEMORY: leave large "
    "directories out (engine option exclude), or raise that"
)
EXIT_CODES = {
    1: "an error that rclone does not classify",
    2: BROKE_DOWN,  # Go's code for lack of memory, and rclone's for wrong arguments
    3: "the directory does not exist on the source",
    4: "a file does not exist on the source",
    5: "a temporary error that lasted through every attempt",
    6: "an error of single files",
    7: "a fatal error",
    8: "a transfer limit was reached",
    9: "no files were transferred",
    10: "a time limit was reached",
}

NOT_WRITABLE = re.compile(
    r"no space left|disk quota exceeded|permission denied|read-only file system|not a directory|input/output error|"
    r"file too large|stale file handle|operation not permitted|is a directory|no such file or directory",
    re.IGNORECASE,
)
QUOTE = "\u201b"
"""The character with which rclone quotes, and which it quotes itself when it lists, but not when it opens."""
HOST_KEY = re.compile(r"(knownhosts: |host )key (mismatch|is unknown)|no common algorithm for host key", re.IGNORECASE)
BAD_KEY = re.compile(r"parse host_keys", re.IGNORECASE)
REFUSED = re.compile(
    r"unable to authenticate|40[13] (Unauthorized|Forbidden)|StatusCode: 40[13]|InvalidAccessKeyId|"
    r"SignatureDoesNotMatch|AccessDenied|failed to parse private key|\b530 |attempted logon is invalid|invalid_grant",
    re.IGNORECASE,
)
SILENT = re.compile(
    r"connection refused|connection reset|connection lost|broken pipe|i/o timeout|deadline exceeded|timed out|"
    r"no route to host|network is unreachable|host is down|host unreachable|no such host|server misbehaving|"
    r"temporary failure in name resolution|TLS handshake timeout|use of closed network connection|"
    r"503 Service Unavailable|StatusCode: 503|\bEOF\b",
    re.IGNORECASE,
)
MEANINGS = (
    (BREAKDOWN, Verdict.SOURCE_FAILED, BROKE_DOWN),
    (
        HOST_KEY,
        Verdict.SOURCE_FAILED,
        "THE HOST KEY IS NOT THE PINNED ONE: this is another machine than before, or another one is in between. "
        "Nothing was copied. Only if the host was reinstalled, correct its host key (ssh-keyscan)",
    ),
    (BAD_KEY, Verdict.SOURCE_FAILED, "the source's host key is not an SSH public key: copy it again (ssh-keyscan)"),
    (REFUSED, Verdict.SOURCE_FAILED, "the source refused the credentials: check its user and secret"),
    (SILENT, Verdict.UNAVAILABLE, "the source does not answer"),
)
OF_SINGLE_FILES_TOO = (REFUSED, SILENT)
"""Messages that servers also give about a single file."""
OF_SINGLE_FILES = (1, 3, 4, 5, 6)
"""Exit codes of a run that went through its whole list. With any other one rclone ended midway."""
LIMIT_REACHED = 8
"""rclone's exit code for a limit: it has ended midway, and has named each file that it was copying."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, with a message for users if rclone achieved nothing; else the `problems` of single files and folders,
    and the number of those whose names were not kept (`unnamed`). `is_silent`: True if one of them did not answer,
    which may mean the whole source. `stood_still`: True if it was ended because it hung for no outside reason, in the
    middle of its list: the rest may come with the next rclone.
    """

    verdict: Verdict
    text: str = ""
    problems: tuple[LoggedError, ...] = ()
    unnamed: int = 0
    is_silent: bool = False
    exit_code: int = 0
    stood_still: bool = False

    @property
    def is_cut(self) -> bool:
        """True if it reached its limit. The problems contain all files that it was copying then."""
        return self.exit_code == LIMIT_REACHED and self.verdict is Verdict.WARNINGS


def judge(exit_code: int, log: RcloneLog, destination: str) -> Judgement:
    """The meaning of an rclone that ended by itself with `exit_code`."""
    problems = log.everything
    if exit_code == 0:
        ignored = [each for each in problems if each.message.endswith(IGNORED)]
        return Judgement(Verdict.SUCCEEDED, problems=tuple(ignored))
    for problem in problems:
        if _is_of_the_repository(problem, destination):
            text = f"the copy cannot be written: {describe(problem)}"
            return Judgement(Verdict.REPOSITORY_FAILED, text, exit_code=exit_code)
    for pattern, verdict, text in MEANINGS:
        for problem in problems:
            if pattern.search(words_of(problem)) and not (pattern in OF_SINGLE_FILES_TOO and problem.path):
                return Judgement(verdict, f"{text} ({describe(problem)})", exit_code=exit_code)
    is_cut = exit_code == LIMIT_REACHED and log.problem_count == len(log.problems)
    if (is_cut or exit_code in OF_SINGLE_FILES) and log.problems and all(problem.path for problem in problems):
        # a living source has files that vanish, change, are locked or unreadable for us: an error with a path is that
        # file's, whatever its text
        is_silent = any(SILENT.search(words_of(problem)) for problem in problems)
        unnamed = log.problem_count - len(log.problems)
        return Judgement(Verdict.WARNINGS, "", tuple(log.problems), unnamed, is_silent, exit_code)
    if problems and exit_code in (1, 7):
        return Judgement(Verdict.SOURCE_FAILED, describe(problems[0]), exit_code=exit_code)
    detail = f" ({describe(problems[0])})" if problems else ""
    meaning = EXIT_CODES.get(exit_code, f"rclone ended with code {exit_code}")
    if exit_code < 0:
        meaning = f"rclone was ended by signal {-exit_code} from outside"
    return Judgement(Verdict.SOURCE_FAILED, meaning + detail, exit_code=exit_code)


def _is_of_the_repository(problem: LoggedError, destination: str) -> bool:
    """True if a problem may be about the repository. It is a suspicion: a source can send such a message.
    `backups.copying.verdicts` tries the repository itself.
    """
    words = words_of(problem)
    about_it = destination in words or PARTIAL_SUFFIX in words
    return about_it and bool(NOT_WRITABLE.search(words))


def words_of(problem: LoggedError) -> str:
    """The message without the file's name: a file may be called `connection refused`."""
    words = problem.message
    for path in spellings_of(problem.path) if problem.path else ():
        words = re.sub(rf'(?<=[/"]){re.escape(path)}(?=[:".]|$)', "", words)
    return words


def describe(problem: LoggedError) -> str:
    """The problem as a line for users."""
    if QUOTE in problem.path:
        return cut(f"{problem.path}: rclone cannot copy a file with ‛ (U+201B) in its name: rename it")
    return cut(f"{problem.path}: {problem.message}") if problem.path else problem.message
