"""Plans kind `check`, which reads the data that an assignment has in its repository (`check_runs`).

All of it is read within the `check_within` of its policy; each day's record reads its share. A restic repository is
read as a whole, by one of the assignments in it; data that another assignment has elsewhere is read by that assignment.

A user may request one repository: then that one is read, and the round keeps its position, unless it is in that
repository. If all are requested, a record reads one, and its settle puts a record on the backlog for the rest.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.lookups import LessThanOrEqual

from backups.upkeep import records, restic_turns
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import Status
from sources import planning
from sources.models import Assignment, CheckRound, Copy, Format, Repository

KIND = planning.CHECK
EVERY = timedelta(hours=20)
"""A day, less the time by which a window may be later than the last one."""
ONLY = "repositories"
"""A key of the payload of a check that was asked for: the ids of the repositories to read, None for all."""
FILES_ONLY = "files_only"
"""A key of the payload of a check whose restic repository another one reads."""


def plan(now: datetime | None = None) -> int:
    """Put the assignments that were not checked for a day on the backlog, the longest ago first. Returns how many are
    new.
    """
    instant = now or database_clock()
    first = Q(check_round=None) & LessThanOrEqual(records.first_from(EVERY.total_seconds()), instant)
    again = Q(check_round__planned_at__lt=instant - EVERY) | Q(check_round__planned_at__gt=instant + records.AHEAD)
    checked = Q(policy__check_within__isnull=False)
    assignments = records.due(first & checked, "pk")  # in the order of a key: the first ones are enough
    if room := records.AT_ONCE - len(assignments):
        assignments += records.due(again & checked, "check_round__planned_at", room, may_be_new=False)
    if not assignments:
        return 0
    _continue_rounds(assignments)
    return _enqueue(assignments, instant, since=instant - EVERY, priority=records.PRIORITY)


@transaction.atomic
def check_now(
    assignment_ids: Iterable[int],
    *,
    by: str = "a user",
    repository: Repository | None = None,
    now: datetime | None = None,
) -> int:
    """Read the rest of their rounds now, outside of their windows as well, and then each of their other repositories;
    or only a `repository`. Returns the number that have something to read, and are not at work yet.
    """
    instant = now or database_clock()
    found = records.asked_for(KIND, assignment_ids, "check_round__planned_at", by, instant)
    return _enqueue(found, instant, repository, **_asked([repository.pk] if repository else None))


def lying_in(repository: Repository) -> list[int]:
    """The ids of the assignments with backups, or copies of backups, in a repository."""
    copied = Copy.objects.filter(repository=repository).exclude(points=[])
    lying = Q(backups__repository=repository) | Q(pk__in=copied.values("assignment"))
    return list(Assignment.objects.filter(lying).values_list("pk", flat=True).distinct())


def read_further(assignment_id: int, repositories: list[int], now: datetime) -> None:
    """Put the rest of the repositories that a user requested on the backlog, as ids."""
    records.enqueue(KIND, records.due(Q(pk=assignment_id), "pk"), now, **_asked(repositories))


def _asked(repositories: list[int] | None) -> dict[str, Any]:
    payload = records.ASKED_FOR | {ONLY: repositories}
    return {"priority": planning.BACK_UP_NOW_PRIORITY, "at_once": True, "asked": payload}


@transaction.atomic
def _enqueue(
    assignments: list[Assignment],
    now: datetime,
    only: Repository | None = None,
    since: datetime | None = None,
    **how: Any,
) -> int:
    """Put checks on the backlog. `only`: the repository to read, without a delay of the turns of others; one that is
    not restic's is read for each assignment. `since`: a restic repository whose check was planned since is left out.
    """
    turns = restic_turns.turns_of(assignments, now, since)
    if only:
        whole = turns.whole if only.format == Format.RESTIC else assignments
        restic_turns.write_rounds(CheckRound(assignment=each, planned_at=now) for each in whole)
        return records.enqueue(KIND, whole, now, **how)
    restic_turns.write_rounds(turns.planned, "planned_at")
    new = records.enqueue(KIND, turns.whole, now, **how)
    return new + records.enqueue(KIND, turns.files, now, payload={FILES_ONLY: True}, **how)


def _continue_rounds(assignments: Iterable[Assignment]) -> None:
    """One repository that was asked for and fails keeps the others waiting for a day, no longer: by its next try the
    record reads as a planned one."""
    subjects = [planning.subject_of(each.pk) for each in assignments]
    asked = BacklogRecord.objects.filter(kind=KIND, subject__in=subjects, status=Status.WAITING)
    asked.filter(**{f"payload__{ONLY}__0__isnull": False}).update(
        payload=records.payload_with({"asked_for": False, ONLY: None})
    )
