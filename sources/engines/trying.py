"""Whether an engine reaches a source and may read there: it looks at the topmost folder, or at the schema of the
database. Nothing is copied."""

from datetime import UTC, datetime
from pathlib import Path

from delivery.redaction import redacted
from jobs.formatting import several
from sources.engines import engine_for
from sources.engines.base import BackupTask, RunEnded, SourceSpec, Verdict
from sources.engines.dumps import DumpEngine
from sources.engines.imap.engine import ask
from sources.engines.rclone.arguments import common_arguments
from sources.engines.rclone.log import RcloneLog
from sources.engines.rclone.reaching import way_to
from sources.engines.rclone.remotes import remote_path
from sources.engines.rclone.verdicts import judge
from sources.processes import runner
from sources.processes.programs import find_rclone
from sources.processes.runner import Command, Ending, StopSignal
from sources.storage.location import of_directory

NOWHERE = "\0"
"""No message holds it, so none is taken for one of the repository's."""


def look(source: SourceSpec, seconds: float, stop: StopSignal) -> str:
    """What was found, in a sentence without full stop. Raises: RunEnded, ProgramMissing, ValueError, OSError."""
    task = BackupTask(
        source,
        of_directory(Path("/")),
        "",
        datetime.now(UTC),
        connect_timeout=seconds,
        stall_timeout=seconds,
        grace=2.0,
    )
    engine = engine_for(source.kind)
    if isinstance(engine, DumpEngine):
        return engine.look(task, stop)
    return _look_at_mailbox(task, stop) if source.kind == "imap" else _look_at_folder(task, stop)


def _look_at_mailbox(task: BackupTask, stop: StopSignal) -> str:
    number = ask(task, "", stop)["folders"]
    return f"{several(number, 'folder')} of its mailbox may be read"


def _look_at_folder(task: BackupTask, stop: StopSignal) -> str:
    log, entries = RcloneLog(lambda text: redacted(text, task.source.hidden)), 0

    def take(line: str) -> None:
        nonlocal entries
        if line.startswith("{"):
            log.take(line)
        else:
            entries += 1

    with way_to(task.source, task.location, task.connect_timeout) as way:
        command = Command(
            (find_rclone(), "lsf", remote_path(task.source), "--max-depth=1", *common_arguments(task)),
            environment=way,
            grace=task.program_grace,
        )
        ended = runner.run(command, stop=stop, on_line=take)
    if ended.ending is not Ending.EXITED:
        raise RunEnded(Verdict.UNAVAILABLE, f"its topmost folder was not listed in time ({entries:,} entries so far)")
    judgement = judge(ended.exit_code, log, NOWHERE)
    if judgement.verdict is not Verdict.SUCCEEDED:
        raise RunEnded(judgement.verdict, judgement.text)
    return f"{entries:,} entr{'ies lie' if entries != 1 else 'y lies'} in its topmost folder"
