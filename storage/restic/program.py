"""Runs restic on a repository. Its key and the credentials of a remote are in its environment, never in argv.

A stale lock (a process on this host made it and is gone, or it is half an hour old) is removed by `restic unlock`,
which leaves live locks: a repository with a live lock is busy. Where no lock can be written, such as on a disk that is
full or read-only, commands that only read continue without one.
"""

import math
import re
import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from external.processes import runner
from external.processes.advice import without_middle
from external.processes.programs import find_rclone, find_restic
from external.processes.repeated_texts import without_answers
from external.processes.runner import Command, EndReason, StopSignal
from external.redaction import redacted
from storage.places import remotes
from storage.places.location import Location
from storage.places.locks import Busy
from storage.places.servers import explained, reached
from storage.points.store import StorageFailed, StorageStopped
from storage.restic.verdicts import ResticTrouble, text_of, trouble_of

LONGEST_LINE = 2**26
"""Bytes: restic lists all snapshots in one line."""
RETRYING = re.compile(r" returned error, retrying after [^:]*")
OF_RCLONE = re.compile(r"rclone: \S+ \S+ ERROR : (.*)")
TRIES, GAP_SECONDS, OUTAGE_SECONDS = 5, 60.0, 15.0
"""The number of tries that count as one outage, if no two are more than GAP_SECONDS apart; and the shortest outage that
ends a long run: the restart of a server must not end it.
"""
DAMAGE_SECONDS = 600.0
"""The longest time without data before a restore is given up: restic gives up a file of data after ten tries, which
take 44 s, and then restores the contents of others.
"""
IMPATIENT = {"RCLONE_LOW_LEVEL_RETRIES": "3", "RCLONE_CONTIMEOUT": "10s"}
"""Settings with which restic's rclone reports an error soon, so that restic tries again."""
READING = frozenset({"snapshots", "restore", "dump"})
NO_LOCK = re.compile(r"unable to create lock|(Save|Remove)\(<lock/|\blocks/[0-9a-f]")
LOST_DATA = re.compile(r"Load\(<data/.{0,500}?no such file or directory")
SERVE = "serve restic --stdio --b2-hard-delete --config="


class ResticFailed(StorageFailed):
    """restic ended with an error. The message is for users."""

    def __init__(self, trouble: ResticTrouble, text: str) -> None:
        super().__init__(
            f"{trouble.value} ({text})" if trouble is not ResticTrouble.OTHER and text else text or trouble.value
        )
        self.trouble, self.text = trouble, text


class StuckSignal:
    """A stop signal that is also set when restic tries again and again without progress: it would do so for a quarter
    of an hour, too long for a page or a unit to wait. A trouble that no waiting heals sets it at once, except for lost
    data where restic `goes_on` with the rest. `secrets` are removed from its text.
    """

    def __init__(
        self,
        stop: StopSignal,
        sign_of_life: Callable[[], object] | None,
        *,
        goes_on: bool = False,
        secrets: Collection[str] = (),
    ) -> None:
        self._secrets = secrets
        self._stop, self._sign_of_life, self._goes_on = stop, sign_of_life or (lambda: None), goes_on
        self._least = OUTAGE_SECONDS if sign_of_life else 0.0
        self._tries, self._since, self._last_at = 0, 0.0, float("-inf")
        self._last_sign: object = None
        self._of_rclone = ""
        self.is_over, self.text, self._said = False, "", ""

    @property
    def trouble(self) -> ResticTrouble:
        """The trouble that makes it try again."""
        found = trouble_of(1, self._said)
        return ResticTrouble.UNREACHABLE if found is ResticTrouble.OTHER else found

    def take(self, on_line: Callable[[str], None], line: str) -> None:
        if found := OF_RCLONE.match(line):
            self._of_rclone = explained(self._shortened(found[1]))
        if not RETRYING.search(line):
            on_line(line)
            return
        now, sign = time.monotonic(), self._sign_of_life()
        if sign != self._last_sign or now - self._last_at > GAP_SECONDS:
            self._tries, self._since = 0, now
        self._tries, self._last_at, self._last_sign = self._tries + 1, now, sign
        self._said = self._of_rclone or self._shortened(RETRYING.sub("", line))
        self.text = self._of_rclone or without_answers(self._said)
        if self._goes_on and self.trouble is ResticTrouble.DAMAGED:
            self.is_over |= now - self._since >= DAMAGE_SECONDS
            return
        takes_no_lock = NO_LOCK.search(line) and self.trouble in (ResticTrouble.NOT_WRITABLE, ResticTrouble.NO_SPACE)
        self.is_over |= bool(takes_no_lock or LOST_DATA.search(line))
        self.is_over |= self._tries >= TRIES and now - self._since >= self._least

    def _shortened(self, text: str) -> str:
        return without_middle(redacted(text.strip(), self._secrets))

    def is_set(self) -> bool:
        return self.is_over or self._stop.is_set()


@dataclass(frozen=True)
class Restic:
    """restic with a repository. `stall_timeout` and `grace` in seconds, as in `Command`. `second`: another repository,
    which it copies from. `inherited`: descriptors that it keeps open.
    """

    location: Location = field(repr=False)
    stop: StopSignal
    stall_timeout: float = math.inf
    grace: float = 4.0
    second: Location | None = field(default=None, repr=False)
    inherited: tuple[int, ...] = ()

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (*self.location.secrets, *(self.second.secrets if self.second else ()))

    def run(
        self,
        *arguments: str,
        on_line: Callable[[str], None] = lambda line: None,
        sign_of_life: Callable[[], object] | None = None,
        directory: str = "/",
        fine: tuple[int, ...] = (),
    ) -> int:
        """Run it; block until it is done. Returns the exit code: 0, or one of `fine`.

        Raises: ResticFailed; Busy for a live lock; StorageStopped, ProgramMissing, OSError.
        """
        once = partial(self._once, on_line, sign_of_life, directory, fine)
        try:
            return self._unlocking(once, arguments)
        except ResticFailed as error:
            if arguments[0] not in READING or not _takes_no_lock(str(error)):
                raise
        return self._unlocking(once, (arguments[0], "--no-lock", *arguments[1:]))

    def _unlocking(self, once: Callable[[tuple[str, ...]], int], arguments: tuple[str, ...]) -> int:
        """Run it, and once more after the stale locks are removed."""
        for is_last in (False, True):
            try:
                return once(arguments)
            except ResticFailed as error:
                if error.trouble is not ResticTrouble.LOCKED:
                    raise
                if is_last:
                    where = " or ".join(each.outside for each in (self.location, self.second) if each)
                    raise Busy(f"another restic works in {where} ({error.text})") from None
            for each in (self.location, self.second):
                if each:
                    replace(self, location=each, second=None)._once(lambda line: None, None, "/", (), ("unlock",))
        raise AssertionError

    def _once(
        self,
        on_line: Callable[[str], None],
        sign_of_life: Callable[[], object] | None,
        directory: str,
        fine: tuple[int, ...],
        arguments: tuple[str, ...],
    ) -> int:
        stuck = StuckSignal(self.stop, sign_of_life, goes_on=arguments[0] == "restore", secrets=self._secrets)
        with reached(self.location, remotes.beside(self.second) if self.second else None) as found:
            command, take = self._command(arguments, found, directory), partial(stuck.take, on_line)
            ended = runner.run(command, stop=stuck, on_line=take, sign_of_life=sign_of_life)
        if ended.ending is EndReason.STOPPED:
            if stuck.is_over:
                raise ResticFailed(stuck.trouble, stuck.text)
            raise StorageStopped
        if ended.ending is EndReason.STALLED:
            raise ResticFailed(ResticTrouble.UNREACHABLE, f"restic {arguments[0]} made no progress and was ended")
        text = text_of(without_middle(redacted(each, self._secrets)) for each in ended.last_lines)
        if not ended.exit_code or (ended.exit_code in fine and not NO_LOCK.search(text)):
            return ended.exit_code
        trouble = trouble_of(ended.exit_code, text)
        raise ResticFailed(trouble, text or f"restic {arguments[0]} ended with code {ended.exit_code}")

    def _command(self, arguments: tuple[str, ...], found: Mapping[str, str], directory: str) -> Command:
        environment, more = {**found, "TZ": "UTC"}, list[str]()
        if "RESTIC_CACHE_DIR" not in environment:
            more.append("--no-cache")
        places = (environment["RESTIC_REPOSITORY"], environment.get("RESTIC_FROM_REPOSITORY", ""))
        if any(each.startswith("rclone:") for each in places):
            environment |= IMPATIENT
            more += ["-o", f"rclone.program={find_rclone()}", "-o", f"rclone.args={SERVE}"]
        return Command(
            (find_restic(), *arguments[:1], *more, *arguments[1:]),
            environment=environment,
            stall_timeout=self.stall_timeout,
            grace=self.grace,
            polite_signal=signal.SIGINT,
            inherited=self.inherited,
            directory=directory,
            longest_line=LONGEST_LINE,
        )


def _takes_no_lock(text: str) -> bool:
    """True if restic could not write its lock in a repository that answers."""
    return bool(NO_LOCK.search(text)) and trouble_of(1, text) is not ResticTrouble.UNREACHABLE
