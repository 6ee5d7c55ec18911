"""rclone at work on a repository: started, watched, its errors translated into messages."""

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from external.processes import runner
from external.processes.advice import without_middle
from external.processes.confinement import readable_by
from external.processes.programs import find_rclone
from external.processes.rows import number, row_of, text
from external.processes.runner import Command, EndReason, ProgramEnd, StopSignal
from external.redaction import redacted
from storage.places.location import Location
from storage.places.pulse import LOGGED, STATS, Pulse, StoodStill
from storage.places.servers import explained, reached

QUIET = ("--use-json-log", "--log-level=ERROR", "--retries=1", "--list-cutoff=1000000000000")
ANY = 2**60
"""Bytes; stands for no limit, where data is moved within a repository, or is read and not written, and so fills no disk
on this host.
"""
SLACK = 64 * 2**20
TRIES_OF_A_BUCKET = {"RCLONE_LOW_LEVEL_RETRIES": "3"}
"""rclone makes the S3 client try each request this many times, with growing waits, and repeats all of that as often: if
no server listens, the usual 10 take six minutes, and these 20 s. For a WebDAV share 10 take 5 s.
"""
BY_ACCOUNT = re.compile(r"_(ENV_AUTH|USE_MSI|USE_AZ|KEY_USE_AGENT|\w*PROFILE|USE_KERBEROS|KERBEROS_CCACHE)$")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
LISTED = "--files-from0="
ROW = '{"Path"'
"""The beginnings of a row of a listing and of a line of the log: neither can occur within a row, where quotes are
escaped.
"""
AFTER_A_PROBLEM = "can't close account: file already closed"
"""A message that rclone adds where it could not decrypt a file."""
ALL_TOGETHER = "Attempt "
"""The beginning of rclone's message about the number of files that it could not copy."""
TOO_MUCH, BROKE_DOWN = 8, 2
"""rclone's exit code for a limit, and Go's for a program that has no memory left."""
NOT_FOUND = (3, 4)
"""rclone's exit codes for a directory and a file that do not exist (https://rclone.org/docs/#exit-code)."""


class StorageFailed(Exception):
    """A failure of rclone. The message is for users, in one line."""


class TargetFailed(StorageFailed):
    """A failure of the target of a restore, not of the repository. No other repository helps."""


class StorageStopped(Exception):
    """It was stopped before it had ended. Any work that was begun can be started again."""


@dataclass(frozen=True)
class Rclone:
    """Calls of rclone: each one blocks, and may raise StorageFailed, StorageStopped, ProgramMissing and OSError.

    `stall_timeout` and `grace` in seconds, as in `Command`. `inherited`: descriptors that rclone keeps open. `beside`:
    another repository that it also reaches, under separate names (`remotes.beside`).
    """

    location: Location
    stop: StopSignal
    stall_timeout: float = 600.0
    grace: float = 4.0
    inherited: tuple[int, ...] = ()
    beside: Location | None = None

    def run(
        self,
        *arguments: str,
        given: bytes = b"",
        missing_ok: bool = False,
        on_line: Callable[[str], object] = lambda line: None,
        sign_of_life: Callable[[], object] | None = None,
        problems: dict[str, str] | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        most: int = ANY,
        confined: tuple[Path, Path | None] | None = None,
    ) -> bool:
        """Run rclone. Returns False if its input is missing and `missing_ok`. `most`: bytes that it may move,
        regardless of the other side's announcements. `confined`: the only folder on this host that it may read, and the
        one that it writes to (None if it writes to a remote).

        `on_line`, `sign_of_life`: as in `runner.run`; errors of rclone are not passed on as lines. `problems`: collects
        errors about single files, by path, which are not a failure then.
        """
        errors: list[str] = []
        secrets = (*self.location.secrets, *(self.beside.secrets if self.beside else ()))

        def take(line: str) -> None:
            if line.startswith(LOGGED) and STATS not in line:
                message, path, is_summary = _message(line, secrets)
                if problems is not None and path:
                    problems[path] = message
                elif message != AFTER_A_PROBLEM and not (problems and is_summary):
                    errors.append(message)
            else:
                on_line(line)

        with reached(self.location, self.beside) as found:
            argv, variables = command_line(*arguments, *QUIET, most=most), {**_tries(found), **found, **environment}
            command = Command(
                argv,
                environment=variables,
                **(_may_open(argv, variables, *confined) if confined else {}),
                stall_timeout=self.stall_timeout,
                grace=self.grace,
                given=given,
                inherited=self.inherited,
            )
            pulse = Pulse(line_by_line(take), sign_of_life)
            try:
                ended = runner.run(command, stop=self.stop, on_line=pulse.on_line, sign_of_life=pulse.sign_of_life)
            except StoodStill as error:
                raise StorageFailed(str(error)) from error
        if problems and not errors and ended.ending is EndReason.EXITED and not _broke_off(ended.exit_code):
            return True
        return _judge(ended, arguments[0], errors, missing_ok, most)

    def check_stop(self) -> None:
        """Called between two steps of work without a program. Raises: StorageStopped."""
        if self.stop.is_set():
            raise StorageStopped

    def size(self, path: str) -> int:
        """Bytes of all files below a folder; 0 if it is missing."""
        lines: list[str] = []
        self.run("size", "--json", self.location.at(path), missing_ok=True, on_line=lines.append)
        return number(row_of("".join(lines)) or {}, "bytes")

    def with_paths(self, paths: Collection[str] | None, *arguments: str, **watched: Any) -> None:
        if paths is None:
            self.run(*arguments, **watched)
        elif paths:
            with path_list(paths) as file:
                self.run(*arguments, f"{LISTED}{file}", **watched)


def command_line(*arguments: str, most: int = ANY) -> tuple[str, ...]:
    """The command line of every rclone that talks to a source or a repository: without a configuration file; it
    allocates no file at the size that a server announces, and ends once it has moved `most` bytes, if that is not ANY.
    """
    limit = () if most == ANY else (f"--max-transfer={most}B",)  # with which it may hang (pulse.py)
    return find_rclone(), *arguments, "--config=", "--local-no-preallocate", *limit


def expected(size: int) -> int:
    """The limit where `size` bytes should come: a file may have grown in the meantime, which is noticed then."""
    return size + size // 10 + SLACK


def line_by_line(take: Callable[[str], object]) -> Callable[[str], None]:
    """Pass on rclone's lines one by one: it ends a row of a listing only before the next one, so anything that it logs
    in the meantime comes right behind the row.
    """

    def on_line(line: str) -> None:
        at = line.find(LOGGED) if line.startswith(ROW) else -1
        if at < 0:
            take(line)
        else:
            take(line[:at])
            take(line[at:])

    return on_line


def rows_to(take: Callable[[dict[str, Any]], object]) -> Callable[[str], None]:
    """Take lines of rclone's lsjson, and pass on the rows. Raises: StorageFailed for a line that is not a row."""

    def on_line(line: str) -> None:
        if line.startswith(ROW):
            row = row_of(line.rstrip(","))
            if row is None or not isinstance(row.get("Path"), str):
                raise StorageFailed(f"rclone's listing has a line that is not an entry: {line:.200}")
            take(row)

    return on_line


@contextmanager
def path_list(paths: Iterable[str]) -> Iterator[str]:
    """A file that lists these paths, for rclone's --files-from0, while the block lasts."""
    with tempfile.NamedTemporaryFile() as listed:
        listed.write(b"".join(path.encode("utf-8", "surrogatepass") + b"\0" for path in paths))
        listed.flush()
        yield listed.name


def _may_open(
    argv: tuple[str, ...], environment: Mapping[str, str], source: Path, target: Path | None
) -> dict[str, Any]:
    """Fields of a `Command`: in addition to these folders, rclone may open the list of files to copy, files that a
    remote names in its settings (files of keys, the folder of an encrypted one), and certificates that the worker goes
    by. A remote that uses accounts of the worker may open everything, since it is not known where those are found.
    """
    if any(BY_ACCOUNT.search(name) for name in environment):
        return {}
    lists = [each.removeprefix(LISTED) for each in argv if each.startswith(LISTED)]
    # as rclone reads them: `~/.ssh/id_ed25519`
    texts = [os.path.expandvars(os.path.expanduser(each)) for each in environment.values()]
    texts += [os.environ[each] for each in CERTIFICATES if each in os.environ]
    named = [each for each in texts if each.startswith("/")]
    folders = [each for each in named if Path(each).is_dir()]
    # some remotes keep a file here to learn its digest before they send it
    written = [target] if target else [tempfile.gettempdir(), *folders]
    return {"readable": readable_by(argv[0], str(source), *lists, *named), "writable": tuple(map(str, written))}


def _tries(environment: Mapping[str, str]) -> Mapping[str, str]:
    kinds = {value for name, value in environment.items() if name.endswith("_TYPE")}
    return TRIES_OF_A_BUCKET if "s3" in kinds else {}


def _broke_off(exit_code: int) -> bool:
    """True if rclone ended, or was killed, before it came to all files: those that it does not name may be amiss."""
    return exit_code in (TOO_MUCH, BROKE_DOWN) or exit_code < 0


def _judge(ended: ProgramEnd, verb: str, errors: list[str], missing_ok: bool, most: int) -> bool:
    if ended.ending is EndReason.STOPPED:
        raise StorageStopped
    if ended.ending is EndReason.STALLED:
        raise StorageFailed(f"rclone {verb} made no progress and was ended")
    if ended.exit_code in NOT_FOUND and missing_ok:
        return False
    if ended.exit_code == TOO_MUCH:
        raise StorageFailed(f"it was ended because more than {most:,} bytes came, which is more than there can be")
    if ended.exit_code == BROKE_DOWN and not errors:
        raise StorageFailed(
            f"rclone {verb} broke down, for example because the listing does not fit in BACKUPSCHED_ENGINE_MEMORY"
        )
    if ended.exit_code != 0:
        raise StorageFailed(errors[-1] if errors else f"rclone {verb} ended with code {ended.exit_code}")
    return True


def _message(line: str, secrets: Collection[str]) -> tuple[str, str, bool]:
    """An error of rclone, the path of the file that it is about, empty if the error names none, and True if it only
    counts the errors before it.
    """
    if (row := row_of(line)) is None:
        return redacted(line.strip(), secrets), "", False
    message = text(row, "msg").strip()
    is_summary = message.startswith(ALL_TOGETHER)
    return explained(without_middle(redacted(message, secrets))), text(row, "object"), is_summary
