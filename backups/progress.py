"""The progress of runs, for pages and commands: one row per record, deleted when its attempt is settled."""

import time
from typing import Any

from engines.base import EngineProgress
from jobs.outcomes import ClaimedRecord
from sources.models import Progress

PROGRESS_EVERY_SECONDS = 0.5


def of_records(ids: list[int]) -> dict[int, dict[str, Any]]:
    """The progress of these records, if it is known."""
    names = ("bytes_done", "bytes_total", "files_done", "attempt", "updated_at")
    rows = Progress.objects.filter(pk__in=ids).values_list("pk", *names)
    return {pk: dict(zip(names, values, strict=True)) for pk, *values in rows}


class ProgressWriter:
    """Saves the progress of a run, at most twice a second."""

    def __init__(self, record: ClaimedRecord) -> None:
        self._record = record
        self._written_at = float("-inf")

    def __call__(self, progress: EngineProgress) -> None:
        now = time.monotonic()
        if now - self._written_at < PROGRESS_EVERY_SECONDS:
            return
        self._written_at = now
        facts: dict[str, Any] = {
            "attempt": self._record.attempt,
            "bytes_done": progress.bytes_done,
            "bytes_total": progress.bytes_total,
            "files_done": progress.files_done,
        }
        Progress.objects.update_or_create(record_id=self._record.id, defaults=facts)
