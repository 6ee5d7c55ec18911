"""The workers: started, killed, stopped, replaced. Only processes that were started here are ever signalled."""

import ctypes
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from jobs.clock import boot_seconds
from proving.chaos.facts import BY_ITSELF, DID_NOT_END, EXIT_CODE_OF_POISON, ProcessFact

GRACE_SECONDS = 1.0
"""The grace of a worker that gets SIGTERM: shorter than a slow handler, so that some records are released."""
END_SECONDS = 120.0
"""The patience with all workers together: on a busy machine one needs half a minute to load its modules and end."""
UNEXPECTED_ENDS = 5
LAST_LINES = 8
PR_SET_PDEATHSIG = 1
ROOT = Path(__file__).resolve().parents[2]


class WorkersDoNotStart(Exception):
    """One worker after the other ended by itself; the message has the end of the last one's log."""


@dataclass
class Member:
    """One worker process. `how`: the deed that ends it."""

    process: subprocess.Popen[bytes]
    journal: Path
    log: Path
    started: float
    root: Path = ROOT
    """The folder of its program; another version has a separate one."""
    how: str = ""
    stopped: bool = False
    asked_to_end: float = float("inf")

    @property
    def pid(self) -> int:
        return self.process.pid


class Fleet:
    """`size` workers, with their journals and logs in `directory`."""

    def __init__(self, directory: Path, seed: int, size: int, beside: Path | None = None) -> None:
        """`beside`: the folder of another version, whose workers work on the same backlog."""
        self.directory, self.seed, self.size = directory, seed, size
        self.roots = (ROOT, beside) if beside else (ROOT,)
        self.members: list[Member] = []
        self.gone: list[tuple[Member, ProcessFact]] = []

    def fill_up(self) -> None:
        """Take notice of the dead and replace them. Raises: WorkersDoNotStart."""
        self.bury()
        last = self.gone[-UNEXPECTED_ENDS:]
        if len(last) == UNEXPECTED_ENDS and all(process.how.startswith(BY_ITSELF) for _, process in last):
            tail = _last_lines(last[-1][0].log, LAST_LINES)
            raise WorkersDoNotStart("\n    ".join([f"the last {UNEXPECTED_ENDS} workers ended by themselves:", *tail]))
        while len(self.members) < self.size:
            self._start()

    def bury(self) -> None:
        """Take notice of the dead."""
        for member in [member for member in self.members if member.process.poll() is not None]:
            self.members.remove(member)
            process = ProcessFact(member.pid, member.started, boot_seconds(), _how(member), member.asked_to_end)
            self.gone.append((member, process))

    def running(self) -> list[Member]:
        """The workers that are neither stopped nor about to end."""
        return [member for member in self.members if not member.stopped and not member.how]

    def kill(self, member: Member) -> None:
        member.how = "killed"
        member.process.kill()
        member.process.wait()
        self.bury()

    def terminate(self, member: Member) -> None:
        member.how = "terminated"
        member.asked_to_end = boot_seconds()
        member.process.terminate()

    def stop(self, member: Member) -> None:
        member.stopped = True
        member.process.send_signal(signal.SIGSTOP)

    def go_on(self, member: Member) -> None:
        member.stopped = False
        member.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End all workers, cleanly if they can."""
        for member in self.members:
            member.process.send_signal(signal.SIGCONT)
            self.terminate(member)
        deadline = boot_seconds() + END_SECONDS
        for member in self.members:
            try:
                member.process.wait(max(0.1, deadline - boot_seconds()))
            except subprocess.TimeoutExpired:
                member.how = DID_NOT_END
                member.process.kill()
                member.process.wait()
        self.bury()

    def kill_all(self) -> None:
        """Kill all workers at once."""
        for member in self.members:
            member.process.kill()
            member.process.wait()
        self.bury()

    def command(self, journal: Path) -> tuple[list[str], dict[str, str]]:
        """The arguments and the environment of the next worker."""
        argv = [sys.executable, "-m", "proving.chaos.worker", str(journal), str(self.seed), str(GRACE_SECONDS)]
        return argv, dict(os.environ)

    def _start(self) -> None:
        number = len(self.gone) + len(self.members) + 1
        root = self._root_of_next()
        journal, log = self.directory / f"journal-{number}", self.directory / f"log-{number}"
        argv, environment = self.command(journal)
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the storm, which ends them
                preexec_fn=die_with_parent if sys.platform == "linux" else None,
            )
        self.members.append(Member(process, journal, log, boot_seconds(), root))

    def _root_of_next(self) -> Path:
        """The folder for the next worker: both versions have equally many, even after some have died."""
        here = [member.root for member in self.members]
        return min(self.roots, key=here.count)


def _how(member: Member) -> str:
    code = member.process.returncode
    if member.how in ("killed", DID_NOT_END):
        return member.how
    if code == 0 or (code == -signal.SIGTERM and member.how):
        return "ended cleanly"  # by the signal itself, if it had not begun yet
    if code == EXIT_CODE_OF_POISON:
        return "poisoned"
    return f"{BY_ITSELF} with code {code}: {' '.join(_last_lines(member.log, 1))}"


def _last_lines(log: Path, count: int) -> list[str]:
    return log.read_text(errors="replace").strip().splitlines()[-count:]


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
