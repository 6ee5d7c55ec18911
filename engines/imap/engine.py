"""Engine imap: brings a Maildir copy of a mailbox up to date (`fetching.py`), and copies that with rclone.

The copy is kept in a directory of this assignment between runs, so that a run fetches only new messages.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from engines.engine import EngineRun, OnProgress
from engines.imap.mail_process import PROGRAM
from engines.limits import Space
from engines.rclone.engine import RcloneEngine
from engines.rclone.options import IDLE_SECONDS
from engines.staging import staged
from external.formatting import several
from external.processes.orders import NoAnswer, Order
from external.processes.runner import StopSignal

LEAST_LOST = 10
TOO_LARGE = "more comes at once than fits in BACKUPSCHED_ENGINE_MEMORY: raise that"
MORE_WARNINGS = "{:,} messages or folders were not fetched as they are; the first:"
DOUBT = "its server no longer lists folders that had {}"


class ImapEngine(RcloneEngine):
    """The engine of sources of kind imap. It takes the options of rclone, which copies the fetched mail."""

    name = "imap"

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        number, _ = _ask(EngineRun(task, stop), "count_folders")
        return f"{several(number, 'folder')} of its mailbox may be read"

    def copy(self, task: BackupTask, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Fetch new messages, then make a point of the copy. `read`: bytes of new messages."""
        with staged(task) as directory:
            fetched = self._fetch(task, directory, stop, on_progress)
            folder = replace(task.source, kind="local", path=str(directory), options={}, secret=None)
            of_copy = replace(task, source=folder, source_kind=task.source.kind, left_out=fetched.warnings)
            made = super().copy(of_copy, stop, on_progress)
            return replace(made, read=fetched.read, doubt=fetched.doubt)

    def stage(
        self, task: BackupTask, into: Path, stop: StopSignal, on_progress: OnProgress
    ) -> tuple[EngineResult, Path]:
        directory = into / "mail"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._fetch(task, directory, stop, on_progress), directory

    def _fetch(self, task: BackupTask, directory: Path, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Bring the copy of the mailbox up to date."""
        run = EngineRun(task, stop, on_progress)
        run.space = Space(directory, task.reserve)
        found, warnings = _ask(run, "fetch", directory=str(directory))
        if found["warned"] > len(warnings):
            warnings.insert(0, MORE_WARNINGS.format(found["warned"]))
        lost = found["lost"]
        doubt = DOUBT.format(several(lost, "message")) if lost >= LEAST_LOST else ""
        verdict = Verdict.WARNINGS if warnings else Verdict.SUCCEEDED
        return EngineResult(verdict, read=found["size"], doubt=doubt, warnings=tuple(warnings))


def _ask(run: EngineRun, do: str, **facts: Any) -> tuple[Any, list[str]]:
    """Let a process talk to the server. Returns its answer and its warnings. Raises: RunEnded, OSError."""
    task, done, warnings = run.task, EngineProgress(0, 0, 0), list[str]()

    def take(line: dict[str, Any]) -> None:
        nonlocal done
        if "warning" in line:
            warnings.append(line["warning"])
        elif "received" in line:
            done = EngineProgress(line["received"], 0, line["messages"])
            run.on_progress(done)

    def sign_of_life() -> EngineProgress:
        run.check(done.bytes_done, f"the mail of {task.source.name}")
        return done

    facts |= {"source": asdict(task.source), "connect": task.connect_timeout}
    facts |= {"idle": min(IDLE_SECONDS, task.stall_timeout)}
    order = Order(PROGRAM, do, facts, take=take, secrets=task.source.hidden)
    ended = run.start(order.argv, given=order.given, on_line=order.on_line, sign_of_life=sign_of_life)
    try:
        return order.answer(ended), warnings
    except NoAnswer as error:
        why = TOO_LARGE if "MemoryError" in str(error) else error
        text = f"the process that speaks with the server ended with code {ended.exit_code}: {why}"
        raise RunEnded(Verdict.SOURCE_FAILED, text) from error
