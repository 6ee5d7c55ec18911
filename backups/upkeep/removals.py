"""Kind `removal`: deletes a source or a repository with the rows of its backups, and on request with their files.

`start` retires a source and puts the record on the backlog, in one transaction: from then on the source is neither
planned nor edited. The record passes the gate of its source, so no other record of that source runs. Then, for each
assignment and repository with backups, the folder is deleted, if requested, and after it the rows, in several
transactions; the row itself comes last. The remaining rows show what is left to do, so the next attempt finishes a
removal that was killed at any point. Without the files, the repository still describes them: manifests are stored next
to them, and `RECOVER.txt` explains how to get them back.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, ProtectedError, Sum
from django.db.models.functions import Coalesce
from django.db.utils import Error
from django.template.defaultfilters import filesizeformat

from backups import repository_orders
from backups.progress import ProgressWriter
from backups.repository_state import busy
from backups.upkeep import records, retention_decisions
from external.formatting import several
from jobs import conf, decisions
from jobs.backlog import cancelling
from jobs.breakers import verbs
from jobs.clock import database_clock
from jobs.database_errors import DatabaseTrouble, trouble_of
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Released, Succeeded
from jobs.states import Status
from jobs.wakeups import notify
from sources import planning
from sources.availability.check import database_away
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Backup, CheckRound, Copy, ManifestDigest, Progress, Repository, Restore, Source
from sources.planning import retirement
from storage.places.locks import Busy
from storage.points.store import StorageFailed, StorageStopped

KIND = planning.REMOVAL
BATCH = 1000
"""Rows a transaction."""
MODELS: dict[str, type[Source] | type[Repository]] = {"source": Source, "repository": Repository}

Row = Source | Repository


@dataclass(frozen=True)
class Contents:
    """The contents that are deleted with sources or repositories: their backups, the bytes written for these, and the
    repositories that hold them; and the `copies` of sources, with their repositories.
    """

    backups: int
    size: int
    repositories: tuple[str, ...]
    copies: int = 0
    second: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " and ".join(filter(None, (self._backups, self._copies))) or "no backups"

    @property
    def _copies(self) -> str:
        if not self.copies:
            return ""
        sources = f"{self.copies:,} sources" if self.copies > 1 else "a source"
        return f"copies of points of {sources} in {', '.join(self.second)}"

    @property
    def _backups(self) -> str:
        if not self.backups:
            return ""
        where = f"the repositor{'ies' if len(self.repositories) > 1 else 'y'} {', '.join(self.repositories)}"
        backups, them = ("backups, each a point", "them") if self.backups > 1 else ("backup, a point", "it")
        size = filesizeformat(self.size)
        return f"{self.backups:,} {backups} that can be restored, in {where} ({size} were written for {them})"


def contents(rows: Collection[Row]) -> Contents:
    """The contents of rows of one kind. Four statements."""
    backups = Backup.objects.filter(**_of(rows)).order_by()
    found = backups.aggregate(number=Count("pk"), size=Sum(Coalesce("added", "size")))
    names = Repository.objects.filter(pk__in=backups.values("repository")).order_by("name")
    copies = Copy.objects.filter(**_of(rows)).exclude(points=[]).order_by()
    second = Repository.objects.filter(pk__in=copies.values("repository")).order_by("name")
    return Contents(
        found["number"],
        found["size"] or 0,
        tuple(names.values_list("name", flat=True)),
        copies.values("assignment__source").distinct().count(),
        tuple(second.values_list("name", flat=True)),
    )


def _of(rows: Iterable[Row]) -> dict[str, Any]:
    """The filter for their backups, or copies."""
    found = list(rows)
    column = "assignment__source__in" if isinstance(found[0], Source) else "repository__in"
    return {column: [each.pk for each in found]}


def under_way() -> frozenset[str]:
    """The subjects of the rows that are being deleted, for `obstacle` of many rows."""
    return frozenset(BacklogRecord.objects.unfinished().filter(kind=KIND).values_list("subject", flat=True))


def obstacle(row: Row, among: Collection[str] | None = None) -> str:
    """A sentence about a row that is being deleted, and the progress of that. Empty if it is not being deleted.
    `among`: the result of `under_way`.
    """
    if among is not None and _subject(row) not in among:
        return ""
    record = BacklogRecord.objects.unfinished().filter(kind=KIND, subject=_subject(row)).first()
    if record is None:
        return ""
    left, of = Backup.objects.filter(**_of([row])).count(), record.payload["of"]
    error = f"; it is tried again, since {record.last_error.partition(chr(10))[0]}" if record.last_error else ""
    return f"it is being deleted: {max(0, of - left):,} of {of:,} backups so far{error} (record {record.pk})"


def start(row: Row, *, with_backups: bool, by: str, now: datetime | None = None) -> BacklogRecord:
    """Begin to delete a row. This retires a source, and cancels its waiting restores."""
    return start_all([row], with_backups=with_backups, by=by, now=now)[0]


@transaction.atomic
def start_all(rows: Sequence[Row], *, with_backups: bool, by: str, now: datetime | None = None) -> list[BacklogRecord]:
    """The same for rows of one kind: a thousand take as many statements as one."""
    instant, subjects = now or database_clock(), {_subject(row): row for row in rows}
    # an edit comes before, or is refused
    list(type(rows[0]).objects.select_for_update(no_key=True).filter(pk__in=[row.pk for row in rows]).order_by("pk"))
    if sources := [row for row in rows if isinstance(row, Source)]:
        retirement.retire(sources, by=by, now=instant)
        restores = Restore.objects.filter(assignment__source__in=sources, ended_at=None)
        cancelling.cancel((each.record_id for each in restores if each.record_id), now=instant)
    counted = Backup.objects.filter(**_of(rows)).order_by()
    counts = dict(counted.values_list("assignment__source" if sources else "repository").annotate(Count("pk")))
    found = BacklogRecord.objects.unfinished().filter(kind=KIND, subject__in=subjects)
    begun = set(found.values_list("subject", flat=True))
    new = {subject: row for subject, row in subjects.items() if subject not in begun}
    BacklogRecord.objects.bulk_create(
        [_record(subject, row, counts.get(row.pk, 0), with_backups, instant) for subject, row in new.items()]
    )
    files = "with its backups" if with_backups else "and the rows of its backups, whose files stay"
    lines = (
        decisions.DecisionLine("asked for", f"{by} deletes {_title(row)} {files}", KIND, key)
        for key, row in new.items()
    )
    decisions.log_all(lines, instant)
    notify(planning.AVAILABILITY)
    return list(found.order_by("pk"))


def _record(subject: str, row: Row, backups: int, with_backups: bool, now: datetime) -> BacklogRecord:
    return BacklogRecord(
        kind=KIND,
        queue=planning.AVAILABILITY,
        subject=subject,
        status=Status.READY,
        run_after=now,
        due_day=now.date(),
        rank_day=now.date(),
        payload={
            "title": _title(row),
            "with_backups": with_backups,
            "of": backups,
            **({"key": row.exclusive_key, "source": row.pk} if isinstance(row, Source) else {"key": None}),
        },
    )


def _title(row: Row) -> str:
    return f"{'source' if isinstance(row, Source) else 'repository'} {row.name}"


def _subject(row: Row) -> str:
    return f"{'source' if isinstance(row, Source) else 'repository'}:{row.pk}"


def remove(run: Run) -> Outcome:
    """Delete the rest of a row. Blocks until that is done."""
    try:
        return _remove(run)
    except Busy as error:
        return busy(str(error))
    except StorageStopped:
        return Released("stopped in the middle; it continues there")
    except StorageFailed as error:
        return Failed(str(error))
    except ProtectedError as error:
        users = sorted({str(each) for each in error.protected_objects})[:5]
        return Failed(f"it came into use in the meantime, by {', '.join(users)}")
    except Error as error:
        if trouble_of(error) is DatabaseTrouble.OURS:
            raise
        return database_away(run.record, error)


def _remove(run: Run) -> Outcome:
    what, _, row_id = run.record.subject.partition(":")
    row = MODELS[what].objects.filter(pk=row_id).first()
    if row is None:
        return Succeeded()
    if isinstance(row, Repository) and (policy := row.policies.first() or row.copied_policies.first()):
        return Failed(f"it came into use in the meantime, by the policy {policy}: nothing was deleted")
    if isinstance(row, Repository) and retention_decisions.restores_under_way().filter(repository=row).exists():
        raise Busy("a restore from it is under way")
    for assignment, repository in _places(row):
        if isinstance(row, Repository):
            _forget_what_goes(assignment, repository)
        if run.record.payload["with_backups"] and assignment.directory:
            _remove_folder(run, assignment, repository)
        _remove_rows(run, Backup.objects.filter(assignment=assignment, repository=repository))
        Copy.objects.filter(assignment=assignment, repository=repository).delete()
        ManifestDigest.objects.filter(assignment=assignment, repository=repository).delete()
    guarded = guarded_by(row) if isinstance(row, Repository) else None  # while it has its id
    row.delete()
    if guarded:
        verbs.forget(guarded)
    return Succeeded()


def _places(row: Row) -> list[tuple[Assignment, Repository]]:
    """The places of its backups, according to our rows; for a source also places where a run may have left files
    without a backup.
    """
    pairs = set(Backup.objects.filter(**_of([row])).order_by().values_list("assignment", "repository").distinct())
    pairs |= set(Copy.objects.filter(**_of([row])).values_list("assignment", "repository"))
    if isinstance(row, Source):
        begun = row.assignments.exclude(directory="")
        pairs |= set(begun.values_list("pk", "policy__repository"))
    assignments = Assignment.objects.in_bulk({each for each, _ in pairs})
    homes = Repository.objects.in_bulk({each for _, each in pairs})
    return [(assignments[one], homes[other]) for one, other in sorted(pairs)]


def _forget_what_goes(assignment: Assignment, repository: Repository) -> None:
    """Leave the removed points out of the damage and the last success of an assignment."""
    for checked in CheckRound.objects.filter(assignment=assignment):
        checked.damage = [each for each in checked.damage if each.get("repository") != repository.pk]
        checked.save(update_fields=["damage"])
    records.count_what_is_left(assignment, assignment.backups.exclude(repository=repository))


def _remove_folder(run: Run, assignment: Assignment, repository: Repository) -> None:
    """Raises: StorageFailed, StorageStopped, Busy."""
    try:
        repository_orders.remove_folder(
            repository,
            run.stop,
            grace=conf.ending_seconds(),
            on_progress=ProgressWriter(run.record),
            folder=assignment.directory,
        )
    except StorageFailed as error:
        raise StorageFailed(f"repository {repository}: {error}") from error


def _remove_rows(run: Run, backups: Any) -> None:
    """Raises: StorageStopped."""
    while ids := list(backups.order_by().values_list("pk", flat=True)[:BATCH]):
        if run.is_stopped:
            raise StorageStopped
        Backup.objects.filter(pk__in=ids).delete()


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """The line of the log. Runs in the settle's transaction."""
    if record.queue != planning.BACKUPS:
        return
    Progress.objects.filter(record_id=record.id).delete()
    title = record.payload["title"]
    match outcome:
        case Succeeded():
            text = f"{title} is deleted, with {several(record.payload['of'], 'backup')}"
            decisions.log("deleted", text, record=record, now=now)
        case Failed(error):
            decisions.log("failed", f"deleting {title}: {error}", record=record, now=now)
