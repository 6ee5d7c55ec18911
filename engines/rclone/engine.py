"""Engine rclone: copies SFTP hosts, S3 buckets, WebDAV shares and local folders into a repository.

A run lists the source once (`listing.py`), compares it with its last point (`comparing.py`), has rclone copy new files
into `files/<run>` (`bringing.py`), checks which have come, and writes the manifest (`point.py`): *the point names what
was listed*, each with its file or with the reason why it has none. rclone gets regular files only, by name; folders,
links, modes, times and owners are in the manifest alone.

An error of a single file is an exception of the point, which keeps the file's earlier content. A run fails for an error
that concerns all: the repository, the connection, the credentials, or more than half of the files. A source that is
silent is unavailable. One without its directory, or an S3 prefix that holds nothing, has failed.
"""

from pathlib import Path
from typing import Any

from engines.base import BackupTask, EngineResult, RunEnded, RunStalled, Verdict
from engines.engine import Engine, OnProgress
from engines.rclone.backup import back_up
from engines.rclone.mirror import mirror
from engines.rclone.options import check_options
from engines.rclone.presence import check_folder, check_marker
from engines.rclone.remotes import way_to
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import describe
from external.formatting import several
from external.processes.programs import find_rclone
from external.processes.runner import StopSignal
from storage.places.locks import locked

MOST_WARNINGS = 20
MIRROR = "mirror"
"""The name, in a staging directory, of the folder that is the same as the source."""


class RcloneEngine(Engine):
    """The engine of sources of kind sftp, s3, webdav, local or rclone. Options: `options.py`."""

    name = "rclone"

    def find_programs(self) -> None:
        find_rclone()

    def check_options(self, options: dict[str, Any]) -> None:
        check_options(options)

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        with way_to(task.source, task.location, task.connect_timeout) as way:
            run = RcloneRun(task, stop, way=way)
            try:
                check_marker(task.source, run.ask)
                entries = run.count_top()
            except RunEnded as error:
                if error.verdict is not Verdict.STOPPED and not isinstance(error, RunStalled):
                    raise
                text = f"its topmost folder was not listed in time ({run.entries:,} entries so far)"
                raise RunEnded(Verdict.UNAVAILABLE, text) from None
        return f"{entries:,} entr{'ies' if entries != 1 else 'y'} in its topmost folder"

    def copy(self, task: BackupTask, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Bring new files of the source, and make a point.

        `size` and `files` are those of the whole point, `read` the bytes that this run fetched, `snapshot` names the
        point.
        """
        check_folder(task)
        # this compares the two streams, and notices a change under way; MD5 would take most of the time
        quick = {"hashes": "xxh3"} if task.source.kind == "local" and task.location.is_plain else {}
        self.find_programs()
        with (
            locked(task.location, task.folder) as lock,
            way_to(task.source, task.location, task.connect_timeout, **quick) as way,
        ):
            return back_up(RcloneRun(task, stop, on_progress, lock, way=way))

    def stage(
        self, task: BackupTask, into: Path, stop: StopSignal, on_progress: OnProgress
    ) -> tuple[EngineResult, Path]:
        """Make a folder in `into` the same as the source, for another engine to read: changed files are fetched."""
        self.find_programs()
        folder = into / MIRROR
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with way_to(task.source, task.location, task.connect_timeout) as way:
            run = RcloneRun(task, stop, on_progress, way=way)
            run.check_source()
            judgement = mirror(run, folder)
            run.check_it_answers(judgement.is_silent)
        number = len(judgement.problems) + judgement.unnamed
        warnings = (f"{several(number, 'file')} not copied", *map(describe, judgement.problems)) if number else ()
        verdict = Verdict.WARNINGS if warnings else Verdict.SUCCEEDED
        return EngineResult(verdict, read=run.progress.size, warnings=warnings[:MOST_WARNINGS]), folder
