"""Retiring a source: it leaves all counts, plans and checks at once, and its backups stay for as long as its policies
would have kept them had the backups continued (`backups/upkeep/retention.py`). Nothing is deleted here, and it can be
undone.

The records of an assignment end with it, too, wherever it is deleted.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs import decisions
from jobs.backlog import cancelling
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import Status
from sources import planning
from sources.models import Assignment, Pause, Source

ENDED = (planning.KIND, planning.CHECK, planning.COPY, planning.DRILL)
"""Kinds whose records end with it. Requested restores still run, and retention continues."""


@transaction.atomic
def retire(sources: Iterable[Source], *, by: str = "a user", now: datetime | None = None) -> int:
    """Stop all backups, checks and drills of these sources; running ones are stopped. Returns how many were not
    retired.
    """
    instant = now or database_clock()
    ids = list(
        Source.objects.filter(pk__in=[each.pk for each in sources], retired_at=None).values_list("pk", flat=True)
    )
    Source.objects.filter(pk__in=ids).update(retired_at=instant)
    assignments = list(Assignment.objects.filter(source__in=ids).values_list("pk", flat=True))
    _end(assignments, ENDED, "its source was retired", instant)
    Assignment.objects.filter(pk__in=assignments, overdue_since__isnull=False).update(overdue_since=None)
    _log("retired", f"{by} retired it", ids, instant)
    return len(ids)


@transaction.atomic
def unretire(sources: Iterable[Source], *, by: str = "a user", now: datetime | None = None) -> int:
    """Back these sources up again, at once if they are due, except those that are being deleted. Returns their
    number."""
    instant = now or database_clock()
    found = Source.objects.filter(pk__in=[each.pk for each in sources], retired_at__isnull=False)
    list(found.select_for_update(no_key=True).order_by("pk"))  # a removal has begun before, and is seen, or waits
    removals = BacklogRecord.objects.unfinished().filter(kind=planning.REMOVAL)
    going = set(removals.values_list("subject", flat=True))
    rows = found.values_list("pk", "retired_at")
    since = {pk: at for pk, at in rows if at and planning.subject_of_source(pk) not in going}
    ids = list(since)
    Source.objects.filter(pk__in=ids).update(retired_at=None)
    Pause.objects.bulk_create([Pause(source_id=pk, since=since[pk], until=instant) for pk in ids])
    _log("in use again", f"{by} put it back into use", ids, instant)
    planning.emit_due(instant, Assignment.objects.filter(source__in=ids).values_list("pk", flat=True))
    return len(ids)


def end_after_deletion(instance: Assignment, **_: Any) -> None:
    """Receiver of `post_delete`: end the records of an assignment once its deletion is committed. Within that
    transaction, which has locked the assignment, a settle that has locked one of these records and needs the assignment
    would wait for it in a circle.
    """
    deleted, why = [instance.pk], "its assignment was deleted"
    transaction.on_commit(lambda: _end(deleted, planning.OF_ASSIGNMENTS, why, database_clock()), robust=True)


@transaction.atomic
def _end(assignments: Collection[int], kinds: Collection[str], why: str, now: datetime) -> None:
    """Cancel their records of these kinds; running ones are stopped."""
    subjects = [planning.subject_of(each) for each in assignments]
    records = BacklogRecord.objects.filter(kind__in=kinds, subject__in=subjects).unfinished()
    locked = list(records.order_by("pk").select_for_update())
    planning.cancel(records, why, now)
    cancelling.cancel((each.pk for each in locked if each.status == Status.RUNNING), now=now)


def _log(what: str, text: str, ids: list[int], now: datetime) -> None:
    lines = (decisions.DecisionLine(what, text, planning.KIND, planning.subject_of_source(pk)) for pk in ids)
    decisions.log_all(lines, now)
