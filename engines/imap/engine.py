"""Engine imap: brings a Maildir copy of a mailbox up to date (`fetching.py`), and copies that with rclone.

What speaks with the server is a program of its own: it can be killed, and has no more memory than an engine may. The
copy lies in a directory of this assignment, kept between runs, so that a run fetches what is new only.
"""

import json
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from engines.engine import OnProgress, Run
from engines.limits import Space
from engines.rclone.engine import RcloneEngine
from engines.rclone.options import IDLE_SECONDS
from engines.staging import staged
from external import guarded
from external.formatting import several
from external.processes import orders
from external.processes.runner import StopSignal

PROGRAM = "engines.imap.fetching"
LEAST_LOST = 10
DOUBT = "its server no longer lists folders that had {}"


class ImapEngine(RcloneEngine):
    """Copies a source of kind imap. Takes the options of rclone, which copies what was fetched."""

    name = "imap"

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        number = _ask(Run(task, stop), "")["folders"]
        return f"{several(number, 'folder')} of its mailbox may be read"

    def copy(self, task: BackupTask, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Fetch what is new, then make a point of the copy. `read`: bytes of new messages."""
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
        run = Run(task, stop, on_progress)
        run.space = Space(directory, task.reserve)
        found = _ask(run, str(directory))
        lost, warnings = found.get("lost", 0), tuple(found["warnings"])
        doubt = DOUBT.format(several(lost, "message")) if lost >= LEAST_LOST else ""
        verdict = Verdict.WARNINGS if warnings else Verdict.SUCCEEDED
        return EngineResult(verdict, read=found["size"], doubt=doubt, warnings=warnings)


def _ask(run: Run, directory: str) -> dict[str, Any]:
    """Let a process of its own speak with the server: bring `directory` up to date, or, where that is empty, see
    whether there are folders. Returns what it found. Raises: RunEnded, OSError."""
    task, done, answers, warnings = run.task, EngineProgress(0, 0, 0), list[dict[str, Any]](), list[str]()
    idle = min(IDLE_SECONDS, task.stall_timeout)
    order = {"source": asdict(task.source), "directory": directory, "connect": task.connect_timeout, "idle": idle}
    order |= {"loopback": guarded.loopback_is_open}

    def on_line(line: str) -> None:
        nonlocal done
        with suppress(ValueError):  # of a traceback
            found = json.loads(line)
            if "received" in found:
                done = EngineProgress(found["received"], 0, found["messages"])
                run.on_progress(done)
            elif "warning" in found:
                warnings.append(found["warning"])
            else:
                answers.append(found)

    def sign_of_life() -> EngineProgress:
        run.check(done.bytes_done, f"the mail of {task.source.name}")
        return done

    argv, given = orders.argv_of(PROGRAM), json.dumps(order).encode()
    ended = run.start(argv, given=given, on_line=on_line, sign_of_life=sign_of_life)
    if not answers:
        text = " ".join(ended.last_lines[-1:])
        if "MemoryError" in text:
            text = "more comes at once than fits in BACKUPSCHED_ENGINE_MEMORY: raise that"
        raise RunEnded(Verdict.SOURCE_FAILED, f"what speaks with the server ended with code {ended.exit_code}: {text}")
    if "error" in answers[-1]:
        raise RunEnded(Verdict(answers[-1]["verdict"]), answers[-1]["error"])
    if answers[-1].get("warned", 0) > len(warnings):
        warnings.insert(0, f"{answers[-1]['warned']:,} messages or folders were not fetched as they are; the first:")
    return answers[-1] | {"warnings": warnings}
