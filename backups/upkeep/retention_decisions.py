"""Decisions about the points of an assignment, by the rules of its policy: which stay and why, and which go.

A point that was to stay and is known to be lost keeps its row, and another one stays in its place; likewise for one
that is there and cannot be restored.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from backups import holdings
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from schedules.cron import Period
from sources import planning
from sources.domain.retention import DAMAGED, MISSING, Keep, KeptPoint, Point
from sources.models import Assignment, CheckRound, Copy, Repository, Restore
from sources.planning import names
from storage import layout
from storage.points.checking import GONE

log = logging.getLogger(__name__)

RESTORED = "being restored"
TOO_MANY = "more would be removed than came"
"""The reason to remove none from a copy: while its rules stay the same, as many points go as come, so more are a sign
of a fault.
"""
KEPT_AT_LEAST = timedelta(days=30)
"""The newest point of a source that was retired: it may have been a mistake, under rules that last for some hours."""


def decide(assignment: Assignment, now: datetime | None = None) -> list[KeptPoint]:
    """The decision about each of its points, the newest first, in all its repositories. `now` (aware): the time of the
    decision for a retired source; by default the database's clock.
    """
    rows = assignment.backups.order_by()
    points = [
        Point(name, started_at, _is_full(*facts), repository)
        for place, started_at, repository, *facts in rows.values_list(
            "snapshot", "started_at", "repository", "warnings", "files", "rows"
        )
        if (name := layout.point_of(place))
    ]
    return _decide(assignment, points, now)


def decide_of_copy(
    assignment: Assignment,
    repository: Repository,
    there: Iterable[str],
    now: datetime | None = None,
    *,
    came: int = 0,
    lacking: Iterable[str] = (),
) -> list[KeptPoint]:
    """The points that a copy in a repository keeps, regardless of the points that it was made from. No more points are
    removed than have come since the last removal (`came` in this run), unless a user has changed the rules since.
    `lacking`: points that lack files in the copy, as this run has found and not noted yet.
    """
    rows = list(assignment.backups.order_by().values_list("snapshot", "started_at", "warnings", "files", "rows"))
    copy = assignment.copies.filter(repository=repository).first()
    incomplete = {layout.point_of(place) for place, _, *facts in rows if not _is_full(*facts)}
    incomplete.update(lacking, copy.incomplete if copy else ())
    # once the clock was ahead, the names of all later points have that second
    times = {layout.point_of(place): started_at for place, started_at, *_ in rows}
    points = [
        Point(name, times.get(name) or layout.instant_of(name), name not in incomplete, repository.pk) for name in there
    ]
    decided = _decide(assignment, points, now)
    if copy is None or assignment.source.retired or copy.thinned_by != assignment.policy.keep:
        return decided
    goes = [each.point for each in decided if not each.reasons]
    spared = set(goes[: max(0, len(goes) - copy.came - came)])
    return [KeptPoint(each.point, (TOO_MANY,)) if each.point in spared else each for each in decided]


def _is_full(warnings: list[str], files: int, rows: int | None) -> bool:
    """True if a backup left nothing out and holds anything. A source that was emptied, and accepted by mistake, does
    not cost the last point with its contents.
    """
    return not warnings and files > 0 and rows != 0


def _decide(assignment: Assignment, points: list[Point], now: datetime | None) -> list[KeptPoint]:
    """Decide twice: points that cannot be restored stay by the rules applied to all; the others, by the rules applied
    to these others alone.
    """
    points.sort(key=lambda point: layout.order_of(point.name), reverse=True)
    lost = _not_restorable(assignment)
    whole = [each for each in points if (each.repository, each.name) not in lost]
    decided = {each.point: each for each in reversed(_apply(assignment, whole, now))}
    for each in _apply(assignment, points, now) if len(whole) < len(points) else ():
        if each.point not in decided:
            why = lost[each.point.repository, each.point.name]
            decided[each.point] = KeptPoint(each.point, each.reasons and (*each.reasons, why))
    return _spared(assignment, [decided[each] for each in points])


def _spared(assignment: Assignment, decided: list[KeptPoint]) -> list[KeptPoint]:
    """Keep points that a user wants restored until that restore has ended."""
    if all(each.reasons for each in decided):
        return decided
    wanted = set(restores_under_way().filter(assignment=assignment).values_list("repository", "point"))
    spared = {each.point for each in decided if (each.point.repository, each.point.name) in wanted}
    return [KeptPoint(each.point, each.reasons or (RESTORED,)) if each.point in spared else each for each in decided]


def restores_under_way() -> QuerySet[Restore]:
    """Restores on the backlog, running or waiting."""
    records = BacklogRecord.objects.unfinished().filter(kind=names.RESTORE)
    return Restore.objects.filter(record_id__in=records.values("pk"))


def known_to_be_lost(assignment: Assignment) -> set[tuple[int | None, str]]:
    """Repository and name of each point that should be there and that a check or a removal found missing."""
    return {point for point, why in _not_restorable(assignment).items() if why == MISSING}


def _not_restorable(assignment: Assignment) -> dict[tuple[int | None, str], str]:
    """The lost points, and those whose manifest or dump is damaged, each with the reason."""
    damage = CheckRound.objects.filter(pk=assignment.pk).values_list("damage", flat=True).first() or []
    of_points = [each for each in damage if each["place"] == layout.MANIFESTS or each.get("is_all")]
    damaged = {(each.get("repository"), each["point"]): DAMAGED for each in of_points}
    return damaged | {(each.get("repository"), each["point"]): MISSING for each in of_points if each["why"] == GONE}


def _apply(assignment: Assignment, points: list[Point], now: datetime | None) -> list[KeptPoint]:
    policy, keep = assignment.policy, assignment.policy.keeping
    if points and (retired_at := assignment.source.retired_at):
        return _decide_of_retired(points, keep, policy.schedule.period, retired_at, now or database_clock())
    return keep.apply(points, policy.schedule.zone)


def _decide_of_retired(
    points: list[Point], keep: Keep, period: Period, retired_at: datetime, now: datetime
) -> list[KeptPoint]:
    """Decide as if a backup had been made in each period since it was retired, but the newest point
    stays to the last.
    """
    since = max(retired_at, points[0].started_at)
    left = keep.gone_on(since, now, period.zone, period.next_after)
    if left is None and now < retired_at + KEPT_AT_LEAST:
        left = Keep(last=1)
    return left.apply(points, period.zone) if left else [KeptPoint(point, ()) for point in points]


def copies_of(assignment: Assignment) -> QuerySet[Copy]:
    """The copies to which its rules apply: all of a retired source, otherwise that of its policy."""
    found = assignment.copies.exclude(points=[]).select_related("repository")
    return found if assignment.source.retired else found.filter(repository=assignment.policy.copy_to_id)


def has_more(assignment: Assignment, now: datetime) -> bool:
    """True if there are points that its policy does not keep. Rules that cannot be read, since they were not written by
    the forms, keep everything: a backup must not fail because of them.
    """
    try:
        if assignment.policy.keeping == Keep():
            return False
        decided = decide(assignment, now=now)
        for copy in copies_of(assignment):
            decided += decide_of_copy(assignment, copy.repository, copy.points, now)
        return not all(each.reasons for each in decided)
    except ValueError as error:
        log.error("policy %s removes nothing: its `keep` cannot be read: %s", assignment.policy, error)
        return False


def going(assignment: Assignment, repository: Repository) -> set[str]:
    """The points in a repository that a removal on the backlog is to remove: one that was killed may have done so."""
    ours = BacklogRecord.objects.unfinished().filter(subject=planning.subject_of(assignment.pk))
    kinds = set(ours.filter(kind__in=(planning.RETENTION, planning.COPY)).values_list("kind", flat=True))
    if assignment.held_back_since or not kinds:
        return set()
    try:
        decided = decide(assignment) if planning.RETENTION in kinds else []
        decided = [each for each in decided if each.point.repository == repository.pk]
        for copy in copies_of(assignment).filter(repository=repository):
            decided += decide_of_copy(assignment, copy.repository, copy.points)
    except ValueError:  # rules that cannot be read: none goes
        return set()
    return {each.point.name for each in decided if not each.reasons}


def to_be_there(assignment: Assignment, repository: Repository) -> list[str]:
    """The points that a repository should have: by our rows, without those that a removal may have removed, but not
    noted yet.
    """
    removed = going(assignment, repository)
    return [each for each in holdings.recorded(assignment, repository) if each not in removed]


def facts_of(assignment: Assignment) -> dict[str, Any]:
    """The result of `decide`, as JSON."""
    points = [
        {"point": each.point.name, "at": each.point.started_at.isoformat(), "stays": bool(each.reasons),
         "because": list(each.reasons)}
        for each in decide(assignment)
    ]  # fmt: skip
    return {
        "source": assignment.source.name,
        "policy": assignment.policy.schedule.name,
        "held_back": assignment.held_back_why,
        "points": points,
    }
