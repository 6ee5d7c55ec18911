"""The shared part of all engines that puts a result together."""

import dataclasses
import logging
from collections.abc import Callable

from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from external.formatting import on_one_line
from external.processes.programs import ProgramMissing
from external.redaction import redacted
from storage.places.locks import Busy
from storage.points.store import StorageFailed, StorageStopped

log = logging.getLogger(__name__)

ERROR_LENGTH = 1_000
WARNINGS = 20
WARNING_LENGTH = 500
STOPPED = "stopped on request"


def failure(verdict: Verdict, error: str) -> EngineResult:
    """A result without a copy. Its message is not cut here, since secrets are struck out first: the half of a secret
    that a cut leaves would not be recognized."""
    return EngineResult(verdict, error=error)


def result_of(task: BackupTask, run: Callable[[], EngineResult]) -> EngineResult:
    """The result of `run`, or the exception that it raises as a result. A secret that a program quoted
    is struck out.
    """
    try:
        result = run()
    except RunEnded as error:
        result = failure(error.verdict, str(error))
    except StorageStopped:
        result = failure(Verdict.STOPPED, STOPPED)
    except Busy as error:
        result = failure(Verdict.BUSY, str(error))
    except (ProgramMissing, ValueError) as error:
        result = failure(Verdict.SOURCE_FAILED, str(error))
    except StorageFailed as error:
        result = failure(Verdict.REPOSITORY_FAILED, str(error))
    except OSError as error:
        result = failure(Verdict.REPOSITORY_FAILED, _not_written(error, task))
    return without_secrets(result, task)


def _not_written(error: OSError, task: BackupTask) -> str:
    """A sentence about what cannot be written: in a repository its folder, for names of temporary files are new each
    time, and sources that fail alike are listed together."""
    folder, root = task.location.at(task.folder), task.location.outside
    name = error.filename if isinstance(error.filename, str) else folder
    within = (each for each in (folder, root) if f"{name}/".startswith(f"{each}/"))
    return f"{next(within, name)} cannot be written: {error.strerror or error}"


def without_secrets(result: EngineResult, task: BackupTask) -> EngineResult:
    """The result with the secrets struck out of its texts, in case a program quoted one; texts bounded."""
    secrets = [*task.source.hidden, *task.location.secrets]
    warnings, not_kept = (
        tuple(on_one_line(redacted(text, secrets))[:WARNING_LENGTH] for text in texts[:WARNINGS])
        for texts in (result.warnings, result.not_kept)
    )
    error = redacted(result.error, secrets)[:ERROR_LENGTH]
    return dataclasses.replace(result, error=error, warnings=warnings, not_kept=not_kept)


class GuardedProgress:
    """Passes on progress; an error of the listener (its database is away) never ends a backup of hours."""

    def __init__(self, listener: Callable[[EngineProgress], None]) -> None:
        self._listener = listener
        self._complained = False

    def __call__(self, progress: EngineProgress) -> None:
        try:
            self._listener(progress)
        except Exception:
            if not self._complained:
                log.warning("progress could not be saved; the backup continues", exc_info=True)
            self._complained = True
