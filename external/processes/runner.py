"""The one place that runs an engine's program.

The program gets an argv tuple (never a shell), a separate session and process group, a small environment, no standard
input except the one it is given, and one pipe for standard output and error. The thread that calls `run` reads that
pipe until the program has ended, so a full pipe never blocks it. However `run` is left, including by an exception of a
callback, the whole process group is gone. When the worker is killed, the kernel kills the program (Linux:
`launcher.py`).

A stop and a stall end it in the same way: the polite signal to its group, and SIGKILL after a grace. A program that
sleeps in the kernel, on a dead network share, does not die of that: it is left behind after a second, and ends when the
share comes back.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO, Any, Protocol, cast

POLL_SECONDS = 0.1
READ_BYTES = 65_536
READS_AFTER_EXIT = 100
"""The most reads after the exit: a program's child that left its group could write for ever."""
LINE_LIMIT = 65_536
"""Longer lines are cut to this number of bytes: the rest is read and dropped."""
KEPT_LINES = 50
"""The most lines in `ProgramEnd`, each cut to `LINE_LIMIT`."""
LEFT_AFTER_SECONDS = 1.0
"""A program that SIGKILL has not ended by then sleeps in the kernel."""

PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOMEMLIMIT")
"""The variables of the worker's environment that a program sees. Everything else (secrets of other sources) is left
out.
"""


class StopSignal(Protocol):
    """Anything like `threading.Event`: set when the run has to end now."""

    def is_set(self) -> bool: ...


class EndReason(Enum):
    """Reasons why a program ended."""

    EXITED = "exited by itself"
    STOPPED = "stopped on request"
    STALLED = "made no progress"


@dataclass(frozen=True)
class Command:
    """A program to run. `argv[0]` is an absolute path; `environment` is added to the variables that every program sees.

    All durations are in seconds. `given`: its standard input; `reads`: the file descriptor that it is read from.
    `inherited`: file descriptors that stay open in the program (a lock). `account`: the (uid, gid) that it runs as, or
    those of the worker if it is None. `readable`: the only files and folders that it may open, for reading, in addition
    to those that it inherits (on Linux 5.13 and later), or all that its account may open if it is empty; `writable`:
    folders in which it may then write. `directory`: its working directory. `longest_line`: bytes of a line of its
    output. `odd_bytes`: the way in which `on_line` gets bytes that are not UTF-8, in the terms of `bytes.decode`.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    stall_timeout: float = 600.0
    grace: float = 8.0
    polite_signal: int = signal.SIGTERM
    given: bytes = field(default=b"", repr=False)
    reads: int | None = None
    inherited: tuple[int, ...] = ()
    account: tuple[int, int] | None = None
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    directory: str = "/"
    longest_line: int = LINE_LIMIT
    odd_bytes: str = "replace"


@dataclass(frozen=True)
class ProgramEnd:
    """The end of a program. `exit_code` is negative for a signal, also of a program that was left behind; `last_lines`
    are bounded in number and length.
    """

    ending: EndReason
    exit_code: int
    last_lines: tuple[str, ...] = ()


def run(
    command: Command,
    *,
    stop: StopSignal,
    on_line: Callable[[str], None] = lambda line: None,
    sign_of_life: Callable[[], object] | None = None,
) -> ProgramEnd:
    """Run a program until it ends; block that long.

    `on_line` gets each line of output without its end. `sign_of_life` returns a value that changes as long as the
    program makes progress (default: the number of lines so far); if it is unchanged for `stall_timeout`, the program
    has stalled.

    Raises: OSError if the program cannot be started; the errors of the callbacks.
    """
    if stop.is_set():
        return ProgramEnd(EndReason.STOPPED, -command.polite_signal)
    process = _start(command)
    watch = _ProcessWatch(process, command, stop, on_line, sign_of_life)
    try:
        watch.until_end()
    finally:
        _signal_group(process, signal.SIGKILL)
        exit_code = _reap(process)
        watch.close()
    if watch.ending is EndReason.EXITED and exit_code == -command.polite_signal and stop.is_set():
        # a signal that stops this process may reach the program as well, while it still is in the same process group
        watch.ending = EndReason.STOPPED
    return ProgramEnd(watch.ending, exit_code, tuple(watch.kept))


def program_environment(added: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a program: the variables that it may see, a neutral locale, and `added`."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return passed | {"LC_ALL": "C"} | dict(added)


def _start(command: Command) -> subprocess.Popen[bytes]:
    argv, as_account = command.argv, dict[str, Any]()
    user, group = command.account or (None, None)
    if sys.platform == "linux":
        launcher = Path(__file__).with_name("launcher.py")
        account = f"{user}:{group}" if command.account else ""
        may_open = (*command.readable, *(f"+{each}" for each in command.writable))
        how = (str(os.getpid()), account, "\n".join(may_open) if command.readable else "")
        argv = (sys.executable, "-I", "-S", str(launcher), *how, *argv)
    elif command.account:
        as_account = {"user": user, "group": group, "extra_groups": []}
    process = subprocess.Popen(
        argv,
        env=program_environment(command.environment),
        cwd=command.directory,
        stdin=command.reads if command.reads is not None else subprocess.PIPE if command.given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=command.inherited,
        bufsize=0,
        **as_account,
    )
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(command.given)
    return process


def _reap(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a program that was killed; a thread waits for one that sleeps in the kernel."""
    try:
        return process.wait(LEFT_AFTER_SECONDS)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()
        return -signal.SIGKILL


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
        os.killpg(process.pid, number)


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """True if it has ended. Leaves it unreaped where possible, so that no other group can have its id yet."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


class _ProcessWatch:
    """A watch that reads one program's output and ends the program when it must end."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        command: Command,
        stop: StopSignal,
        on_line: Callable[[str], None],
        sign_of_life: Callable[[], object] | None,
    ) -> None:
        self._process, self._command, self._stop, self._on_line = process, command, stop, on_line
        self._pipe = cast(IO[bytes], process.stdout)
        os.set_blocking(self._pipe.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe, selectors.EVENT_READ)
        self._splitter = LineSplitter(command.longest_line, command.odd_bytes)
        self._lines = 0
        self._sign_of_life = sign_of_life or (lambda: self._lines)
        self._alive_at = time.monotonic()
        self._last_sign: object = None
        self._kill_at = self._leave_at = float("inf")
        self.ending = EndReason.EXITED
        self.kept: deque[str] = deque(maxlen=KEPT_LINES)

    def until_end(self) -> None:
        """Return when the program has exited and its output is read, or when it is left behind."""
        while not _has_exited(self._process) and time.monotonic() < self._leave_at:
            self._read(POLL_SECONDS)
            self._end_if_it_must(time.monotonic())
        _signal_group(self._process, signal.SIGKILL)
        for _ in range(READS_AFTER_EXIT):
            if not self._read(0):
                break
        self._take(self._splitter.rest())

    def close(self) -> None:
        self._selector.close()
        self._pipe.close()

    def _read(self, timeout: float) -> bool:
        """Take the data in the pipe; wait for it if need be. Returns True if there was any."""
        if not self._selector.get_map():
            time.sleep(min(timeout, 0.002))  # it closed its output: about to exit
            return False
        if not self._selector.select(timeout):
            return False
        chunk = self._pipe.read(READ_BYTES)
        if chunk is None:
            return False  # nothing yet after all
        if not chunk:
            self._selector.unregister(self._pipe)
            return False
        self._take(self._splitter.feed(chunk))
        return True

    def _take(self, lines: Iterator[str]) -> None:
        for line in lines:
            self._lines += 1
            self.kept.append(line[:LINE_LIMIT].encode(errors="surrogateescape").decode(errors="replace"))
            self._on_line(line)

    def _end_if_it_must(self, now: float) -> None:
        if self.ending is EndReason.EXITED:
            ending = self._reason_to_end(now)
            if ending is not EndReason.EXITED:
                self.ending = ending
                self._kill_at = now + self._command.grace
                _signal_group(self._process, self._command.polite_signal)
        elif now >= self._kill_at:
            self._kill_at, self._leave_at = float("inf"), now + LEFT_AFTER_SECONDS
            _signal_group(self._process, signal.SIGKILL)

    def _reason_to_end(self, now: float) -> EndReason:
        if self._stop.is_set():
            return EndReason.STOPPED
        sign = self._sign_of_life()
        if sign != self._last_sign:
            self._last_sign, self._alive_at = sign, now
        elif now - self._alive_at >= self._command.stall_timeout:
            return EndReason.STALLED
        return EndReason.EXITED


class LineSplitter:
    """Cuts a stream of bytes into lines of bounded length, without ever holding more than one such line."""

    def __init__(self, limit: int = LINE_LIMIT, odd_bytes: str = "replace") -> None:
        self._limit, self._odd_bytes = limit, odd_bytes
        self._held = bytearray()

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The lines that `chunk` completes, decoded."""
        *whole, tail = chunk.split(b"\n")
        for part in whole:
            yield self._line_with(part)
        self._hold(tail)

    def rest(self) -> Iterator[str]:
        """The last line, if the stream did not end with a line end."""
        if self._held:
            yield self._line_with(b"")

    def _hold(self, part: bytes) -> None:
        self._held += part[: self._limit - len(self._held)]

    def _line_with(self, end: bytes) -> str:
        self._hold(end)
        line, self._held = self._held, bytearray()
        return line.decode("utf-8", self._odd_bytes).rstrip("\r")
