"""Kind `retention`: removes the points of an assignment that its policy does not keep.

A backup that succeeds puts its record on the backlog when there is something to remove, and so does a copy whose
repository was busy at its end. It is not held by the repository's breaker: a full repository is what it makes room in.
What the repository says is there counts, so a removal whose result was lost is noted by the next one; until then no
check misses what it was to remove (`going`). A backup's row goes with its point. Where a policy was given another
repository, its rules go on for what lies in the earlier ones; one of those that fails is named, and holds nothing up.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.template.defaultfilters import filesizeformat

from jobs.clock import database_clock
from jobs.formatting import several
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, Claimed, Outcome, Succeeded
from schedules.cron import Period
from sources import planning
from sources.availability.check import not_wanted
from sources.backups import repositories, thinning, upkeep
from sources.domain.retention import Keep, Kept, Point
from sources.models import Assignment, Backup, CheckRound, Copy, Repository
from sources.storage import layout
from sources.storage.checking import Damage
from sources.storage.merging import Removed
from sources.storage.store import Stopped, StorageFailed

log = logging.getLogger(__name__)

KIND = planning.RETENTION
MINUTES = 24 * 60
UNREADABLE = "its manifest cannot be read, so the point cannot be restored, and the one after it is not removed"
KEPT_AT_LEAST = timedelta(days=30)
"""The newest point of a source that was retired: it may have been a mistake, under rules that last for some hours."""


@dataclass
class Removal:
    """What was removed, by repository, beside its points that had no row. `failed`: why not elsewhere; `lost`: points
    that were to stay, and are not there. `pruned`: bytes that restic freed."""

    by_repository: dict[int, tuple[Removed, list[dict[str, Any]]]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    pruned: int = 0
    copies: dict[int, list[str]] = field(default_factory=dict)
    """Of `Copy` rows: the points that are there still."""


def decide(assignment: Assignment, keep: Keep | None = None, now: datetime | None = None) -> list[Kept]:
    """What becomes of each of its points, the newest first, in whichever repository they lie. `keep`: other rules than
    its policy's. `now` (aware): of a retired source, when; by default the database's clock."""
    policy = assignment.policy
    rows = Backup.objects.filter(assignment=assignment).order_by()
    points = [
        Point(name, started_at, not warnings, repository)
        for place, started_at, warnings, repository in rows.values_list(
            "snapshot", "started_at", "warnings", "repository"
        )
        if (name := layout.point_of(place))
    ]
    return _decide(assignment, points, keep or policy.keeping, now)


def decide_of_copy(assignment: Assignment, names: Iterable[str], now: datetime | None = None) -> list[Kept]:
    """The same of the points that a copy has, whatever became of those that it was made of."""
    rows = assignment.backups.order_by().values_list("snapshot", "warnings")
    incomplete = {layout.point_of(place) for place, warnings in rows if warnings}
    points = [Point(name, layout.instant_of(name), name not in incomplete) for name in names]
    return _decide(assignment, points, assignment.policy.keeping, now)


def _decide(assignment: Assignment, points: list[Point], keep: Keep, now: datetime | None) -> list[Kept]:
    policy = assignment.policy
    points.sort(key=lambda point: layout.order_of(point.name), reverse=True)
    if points and (retired_at := assignment.source.retired_at):
        return _decide_of_retired(points, keep, policy.schedule.period, retired_at, now or database_clock())
    return keep.apply(points, policy.schedule.zone)


def _decide_of_retired(
    points: list[Point], keep: Keep, period: Period, retired_at: datetime, now: datetime
) -> list[Kept]:
    """As if a backup had been made in each period since it was retired, but the newest point stays to the last."""
    since = max(retired_at, points[0].started_at)
    left = keep.gone_on(since, now, period.zone, period.next_after)
    if left is None and now < retired_at + KEPT_AT_LEAST:
        left = Keep(last=1)
    return left.apply(points, period.zone) if left else [Kept(point, ()) for point in points]


@transaction.atomic
def plan_retired(now: datetime | None = None) -> int:
    """Put on the backlog those of retired sources of which something is to be removed: each once a day, in a minute of
    its own. Returns how many are new."""
    instant = now or database_clock()
    has_points = Q(Exists(Backup.objects.filter(assignment=OuterRef("pk"))))
    has_points |= Q(Exists(Copy.objects.filter(assignment=OuterRef("pk")).exclude(points=[])))
    retired = Assignment.objects.filter(has_points, source__retired_at__isnull=False).annotate(minute=F("pk") % MINUTES)
    minute = instant.hour * 60 + instant.minute
    related = retired.filter(minute=minute).select_related("source", "policy__schedule", "policy__repository")
    return plan(related.order_by("pk"), instant)


def facts_of(assignment: Assignment) -> dict[str, Any]:
    """The same as JSON."""
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


def plan(assignments: Iterable[Assignment], now: datetime | None = None) -> int:
    """Put on the backlog those of which something is to be removed. Returns how many are new.

    Not those that are held back, whose source is paused, or whose policy is disabled.
    """
    instant = now or database_clock()
    free = (each for each in assignments if not each.held_back_since and not not_wanted(each, although_retired=True))
    return upkeep.enqueue(KIND, [each for each in free if _has_more(each, instant)], instant)


def _has_more(assignment: Assignment, now: datetime) -> bool:
    """Whether there are points that its policy does not keep. Rules that cannot be read, since they were written past
    the forms, keep all: a backup is not to fail of them."""
    try:
        if assignment.policy.keeping == Keep():
            return False
        decided = decide(assignment, now=now)
        for copy in _copies(assignment):
            decided += decide_of_copy(assignment, copy.points, now)
        return not all(each.reasons for each in decided)
    except ValueError as error:
        log.error("policy %s removes nothing: what it keeps cannot be read: %s", assignment.policy, error)
        return False


def remove_points(run: Run) -> Outcome:
    """Remove what the policy does not keep. Blocks for as long as that takes."""
    return upkeep.do(run, _remove, although_retired=True)


def _remove(work: upkeep.Work) -> Removal:
    assignment = work.assignment
    if since := assignment.held_back_since:
        text = (
            f"nothing is removed since {since:%Y-%m-%d %H:%M} UTC, when its backup looked wrong "
            f"({assignment.held_back_why}): look at it, and accept it if it is meant so"
        )
        raise upkeep.Refused(Cancelled(text))
    done = Removal()
    try:
        _remove_all(work, done)
    except (StorageFailed, repositories.Busy, Stopped):
        if done.by_repository:
            _log(work.record, done, database_clock())
        raise
    return done


def _remove_all(work: upkeep.Work, done: Removal) -> None:
    """Raises: StorageFailed, Stopped, Busy, also after some of it is done."""
    assignment = work.assignment
    decided = defaultdict[int, list[Kept]](list)
    for each in decide(assignment, now=work.record.started_at):
        decided[each.point.repository].append(each)
    for repository in repositories.holding(assignment):
        work.repository = repository
        is_own = repository.pk == assignment.policy.repository_id
        try:
            if answer := thinning.thin(work, repository, decided[repository.pk]):
                points, present, damaged = (tuple(answer[name]) for name in ("points", "present", "damaged"))
                removed = Removed(points, present, answer["freed"], damaged)
                done.by_repository[repository.pk] = removed, answer["unrecorded"]
                stay = (each.point.name for each in decided[repository.pk] if each.reasons)
                done.lost += (name for name in stay if name not in present)
            if answer or is_own:  # an earlier attempt may have removed points, and freed nothing
                done.pruned += thinning.prune(work, repository)
        except StorageFailed as error:
            if is_own:
                raise
            done.failed.append(f"repository {repository}: {error}")
    _thin_copies(work, done)


def going(assignment: Assignment, repository: Repository) -> set[str]:
    """The points in a repository that a removal on the backlog is to remove: one that was killed may have done so."""
    ours = BacklogRecord.objects.unfinished().filter(subject=planning.subject_of(assignment.pk))
    kinds = set(ours.filter(kind__in=(KIND, planning.COPY)).values_list("kind", flat=True))
    if assignment.held_back_since or not kinds:
        return set()
    try:
        decided = decide(assignment) if KIND in kinds else []
        decided = [each for each in decided if each.point.repository == repository.pk]
        for copy in _copies(assignment).filter(repository=repository):
            decided += decide_of_copy(assignment, copy.points)
    except ValueError:  # rules that cannot be read: none goes
        return set()
    return {each.point.name for each in decided if not each.reasons}


def _copies(assignment: Assignment) -> QuerySet[Copy]:
    """Those to which its rules apply: all of a retired source, else that of its policy."""
    found = assignment.copies.exclude(points=[]).select_related("repository")
    return found if assignment.source.retired else found.filter(repository=assignment.policy.copy_to_id)


def _thin_copies(work: upkeep.Work, done: Removal) -> None:
    for copy in _copies(work.assignment):
        try:
            if answer := thinning.thin(
                work, copy.repository, decide_of_copy(work.assignment, copy.points, work.record.started_at)
            ):
                done.copies[copy.pk] = list(answer["present"])
                thinning.prune(work, copy.repository)
        except StorageFailed as error:
            done.failed.append(f"copy in repository {copy.repository}: {error}")


def write_down(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """Remove the rows of backups whose points are gone, and add those that are missing. Runs in the settle's
    transaction."""
    upkeep.log_outcome(record, outcome, now)
    match outcome:
        case Succeeded(result=Removal() as done):
            assignment_id = record.payload["assignment"]
            if (assignment := Assignment.objects.filter(pk=assignment_id).first()) is None:
                return
            for repository_id, (removed, unrecorded) in done.by_repository.items():
                rows = Backup.objects.filter(
                    assignment=assignment_id, repository=repository_id, started_at__lt=record.started_at
                )
                gone = [
                    pk
                    for pk, place in rows.values_list("pk", "snapshot")
                    if (name := layout.point_of(place)) and name not in removed.present
                ]
                Backup.objects.filter(pk__in=gone).delete()
                upkeep.record_points(assignment_id, repository_id, unrecorded)
                note_manifests(assignment_id, repository_id, removed.damaged, now)
            for copy_id, points in done.copies.items():
                Copy.objects.filter(pk=copy_id).update(points=points)
            if done.by_repository:
                upkeep.count_what_is_left(assignment, assignment.backups.all())
            _log(record, done, now)


def note_manifests(assignment_id: int, repository_id: int, points: Iterable[str], now: datetime) -> None:
    """Keep which manifests cannot be read, as a removal of points has found."""
    row = CheckRound.objects.filter(pk=assignment_id).first() or CheckRound(pk=assignment_id, planned_at=now)
    found = [
        asdict(Damage(each, f"{layout.MANIFESTS}/{each}", layout.MANIFESTS, UNREADABLE, repository_id))
        for each in points
    ]
    others = [
        each for each in row.damage if (each.get("repository"), each["place"]) != (repository_id, layout.MANIFESTS)
    ]
    if row.damage != others + found:
        row.damage = others + found
        row.save()


def _log(record: Claimed, done: Removal, now: datetime) -> None:
    removals = [removed for removed, _ in done.by_repository.values()]
    points = [point for removed in removals for point in removed.points]
    freed = done.pruned + sum(each.freed for each in removals)
    kept = sum(len(each.present) for each in removals)
    text = f"{several(len(points), 'point')} removed, {filesizeformat(freed)} freed"
    text += f", {kept} kept" if removals else ""
    upkeep.log(record, "removed", text, now, points=points[:100], freed=freed)
    if damaged := [point for removed in removals for point in removed.damaged]:
        text = f"the manifest of point {', '.join(damaged[:3])} cannot be read, so the point after it stays"
        upkeep.log(record, "damaged", text, now, points=damaged[:100])
    if done.lost:
        text = (
            f"the manifest of point {', '.join(done.lost[:3])} is missing, so it cannot be restored; no point goes now"
        )
        upkeep.log(record, "damaged", text, now, points=done.lost[:100])
    for reason in done.failed:
        upkeep.log(record, "failed", f"{reason}; what lies there stays", now)
