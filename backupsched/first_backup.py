"""The first backup of a new installation, by a worker that lives no longer than the question for it."""

import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from backupsched.places import own_command
from external.processes.parents import end_with_parent
from jobs.conf import PROGRAM

LOOK_EVERY_SECONDS = 0.5
LAST_LINES = 5
TRY_AGAIN = f"\nWhat to do: correct that, then run `{PROGRAM} init` again, which tries this backup again"


def ask_once_more(source: str) -> None:
    """Let a first backup that failed be tried now, not at the time of its retry policy."""
    from sources.models import Assignment
    from sources.planning.requests import back_up_now

    back_up_now(Assignment.objects.filter(source__name=source), asked_by="init")


def back_up(source: str, show: Callable[[dict[int, dict[str, int]]], None]) -> Any:
    """Run a worker until the first backup of `source` is there; `show` gets the progress by record. Returns it.
    Raises: CommandError where an attempt that began from here on failed, or found no source."""
    from backups import progress
    from jobs.clock import database_clock
    from jobs.models import Attempt, BacklogRecord
    from jobs.states import AttemptOutcome
    from sources.models import Backup

    asked_at, ends = database_clock(), (AttemptOutcome.FAILED, AttemptOutcome.UNAVAILABLE)
    with tempfile.TemporaryFile() as log:
        command = (*own_command(), "worker", "--grace", "1s")
        # it hands its record back where this process is killed, so that the next `init` need not wait for a lease
        worker = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_parent)
        try:
            while not (made := Backup.objects.filter(assignment__source__name=source).first()):
                records = list(BacklogRecord.objects.filter(kind="backup").values_list("pk", flat=True))
                tried = Attempt.objects.filter(record_id__in=records, started_at__gte=asked_at)
                if failed := tried.filter(outcome__in=ends).last():
                    why = f"all is set up, and the first backup failed: {failed.error}{TRY_AGAIN}"
                    raise CommandError(why, returncode=1)
                if worker.poll() is not None:
                    log.seek(0)
                    lines = log.read().decode(errors="replace").splitlines()[-LAST_LINES:]
                    raise CommandError(f"the worker ended: {' '.join(lines)}", returncode=1)
                show(progress.of_records(records))
                time.sleep(LOOK_EVERY_SECONDS)
            return made
        finally:
            worker.terminate()
            worker.wait()
