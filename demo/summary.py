"""The results of a demo run: for each source the outcome, attempts, bytes, seconds, and whether the copy equals the
original.
"""

import filecmp
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.restores import DemoRestore
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome
from sources.models import Assignment, Backup
from sources.planning import BACKUPS, subject_of
from storage import layout


@dataclass(frozen=True)
class Summary:
    """The whole run. `sources`: the `_summary_of` each; `protected` and `reachable` count them; `restored`: the
    restores at the end."""

    sources: list[dict[str, Any]]
    restored: list[DemoRestore]
    protected: int
    reachable: int
    seconds: float

    @property
    def complete(self) -> bool:
        """True if every reachable source is protected by a copy that equals it, and the restores equal theirs."""
        rows = [source["identical"] for source in self.sources if source["reachable"]]
        return all(rows) and all(each.identical for each in self.restored)


def unprotected(reachable: set[str]) -> list[str]:
    """Names of the sources of `reachable` that have no backup yet."""
    done = Backup.objects.filter(assignment__source__name__in=reachable)
    return sorted(reachable - set(done.values_list("assignment__source__name", flat=True)))


def refused_attempts(name: str) -> int:
    """The number of failed attempts at a source."""
    assignment = Assignment.objects.filter(source__name=name).first()
    return assignment.failures if assignment else 0


def summarise(
    reachable: dict[str, bool], compare: Callable[[str, Backup], bool], restored: list[DemoRestore], seconds: float
) -> Summary:
    """Describe every source of the demo (name → whether it is reachable). `compare` reports whether a copy is
    identical."""
    assignments = Assignment.objects.select_related("source").order_by("source__name")
    rows = [_summary_of(assignment, reachable[assignment.source.name], compare) for assignment in assignments]
    return Summary(
        sources=rows,
        restored=restored,
        protected=sum(row["bytes"] is not None for row in rows),
        reachable=sum(row["reachable"] for row in rows),
        seconds=round(seconds, 1),
    )


def _summary_of(assignment: Assignment, reachable: bool, compare: Callable[[str, Backup], bool]) -> dict[str, Any]:
    """`attempts`: runs of its engine; `bytes` protected, in `seconds`; `repository`: its copy; `identical`: it equals
    the original."""
    name = assignment.source.name
    records = BacklogRecord.objects.filter(kind="backup", subject=subject_of(assignment.pk))
    backup = assignment.backups.order_by("-ended_at").first()
    attempts = Attempt.objects.filter(record__in=records, queue=BACKUPS)
    seconds = round((backup.ended_at - backup.started_at).total_seconds(), 2) if backup else None
    return {
        "name": name, "kind": assignment.source.kind, "reachable": reachable,
        "outcome": _outcome(backup, attempts.order_by("-ended_at").first(), records.order_by("-pk").first()),
        "attempts": attempts.count(), "bytes": backup.size if backup else None, "seconds": seconds,
        "repository": str(copy_of(backup)) if backup else None,
        "next_backup_at": assignment.next_backup_at.isoformat() if assignment.next_backup_at else None,
        "identical": compare(name, backup) if backup else None,
    }  # fmt: skip


def copy_of(backup: Backup) -> Path:
    """The directory of its source's files, or its newest dump."""
    folder = Path(backup.repository.location, layout.files_path(backup.assignment.directory))
    return folder if backup.engine == "rclone" else folder / backup.snapshot / "database.dump"


def _outcome(backup: Backup | None, attempt: Attempt | None, record: BacklogRecord | None) -> str:
    if backup:
        return "succeeded with warnings" if backup.warnings else "succeeded"
    if attempt and attempt.outcome == AttemptOutcome.FAILED:
        return f"failed: {attempt.error}"
    return f"waiting: {record.last_error}" if record and record.last_error else "waiting"


def differences(original: Path, copy: Path) -> list[str]:
    """The differences between two trees as text; empty if every path and every byte is the same."""
    ours, theirs = _relative_files(original), _relative_files(copy)
    missing = [f"missing in the copy: {path}" for path in sorted(ours - theirs)]
    surplus = [f"only in the copy: {path}" for path in sorted(theirs - ours)]
    changed = [
        f"differs: {path}"
        for path in sorted(ours & theirs)
        if not filecmp.cmp(original / path, copy / path, shallow=False)
    ]
    return missing + surplus + changed


def _relative_files(root: Path) -> set[str]:
    return {os.path.relpath(os.path.join(folder, file), root) for folder, _, files in os.walk(root) for file in files}
