"""Kind `retention`: removes the points of an assignment that its policy does not keep.

A backup that succeeds puts its record on the backlog when there is something to remove. It is not held by the
repository's breaker: a full repository is what it makes room in. What the repository says is there counts, so a removal
whose result was lost is noted by the next one. A backup's row goes with its point.
"""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.template.defaultfilters import filesizeformat

from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Cancelled, Claimed, Outcome, Succeeded
from sources import planning
from sources.availability.check import not_wanted
from sources.backups import repositories, upkeep
from sources.domain.retention import Keep, Kept, Point
from sources.models import Assignment, Backup
from sources.storage import layout
from sources.storage.merging import Removed

log = logging.getLogger(__name__)

KIND = planning.RETENTION


def decide(assignment: Assignment, keep: Keep | None = None) -> list[Kept]:
    """What becomes of each of its points in its policy's repository, the newest first. `keep`: other rules than its
    policy's."""
    policy = assignment.policy
    rows = _backups_of(assignment).values_list("snapshot", "started_at", "warnings")
    points = [
        Point(name, started_at, not warnings) for place, started_at, warnings in rows if (name := point_of(place))
    ]
    points.sort(key=lambda point: layout.order_of(point.name), reverse=True)
    return (keep or policy.keeping).apply(points, policy.schedule.zone)


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


def point_of(snapshot: str) -> str | None:
    """The name of a backup's point; None: it has none."""
    return next((part for part in reversed(snapshot.split("/")) if layout.NAME.fullmatch(part)), None)


def _backups_of(assignment: Assignment) -> QuerySet[Backup]:
    """Those in its policy's repository: what lies in an earlier one stays."""
    return Backup.objects.filter(assignment=assignment, repository=assignment.policy.repository_id).order_by()


def plan(assignments: Iterable[Assignment], now: datetime | None = None) -> int:
    """Put on the backlog those of which something is to be removed. Returns how many are new.

    Not those that are held back, whose source is paused, or whose policy is disabled.
    """
    wanted = [each for each in assignments if not each.held_back_since and not not_wanted(each) and _has_more(each)]
    return upkeep.enqueue(KIND, wanted, now or database_clock())


def _has_more(assignment: Assignment) -> bool:
    """Whether there are points that its policy does not keep. Rules that cannot be read, since they were written past
    the forms, keep all: a backup is not to fail of them."""
    try:
        return assignment.policy.keeping != Keep() and not all(each.reasons for each in decide(assignment))
    except ValueError as error:
        log.error("policy %s removes nothing: what it keeps cannot be read: %s", assignment.policy, error)
        return False


def remove_points(run: Run) -> Outcome:
    """Remove what the policy does not keep. Blocks for as long as that takes."""
    return upkeep.do(run, _remove)


def _remove(work: upkeep.Work) -> Removed:
    assignment = work.assignment
    if since := assignment.held_back_since:
        text = (
            f"nothing is removed since {since:%Y-%m-%d %H:%M} UTC, when its backup looked wrong "
            f"({assignment.held_back_why}): look at it, and accept it if it is meant so"
        )
        raise upkeep.Refused(Cancelled(text))
    decided = decide(assignment)
    answer = repositories.work(
        "remove_points",
        assignment.policy.repository,
        work,
        grace=work.grace,
        on_progress=work.on_progress,
        folder=assignment.directory,
        points=[each.point.name for each in decided if not each.reasons],
        stay=[each.point.name for each in decided if each.reasons],
    )
    return Removed(tuple(answer["points"]), tuple(answer["present"]), answer["freed"])


def write_down(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """Remove the rows of backups whose points are gone. Runs in the settle's transaction."""
    upkeep.log_outcome(record, outcome, now)
    match outcome:
        case Succeeded(result=Removed() as removed):
            assignment = Assignment.objects.select_related("policy").filter(pk=record.payload["assignment"]).first()
            if assignment:
                rows = _backups_of(assignment).filter(started_at__lt=record.started_at)
                gone = [
                    pk
                    for pk, place in rows.values_list("pk", "snapshot")
                    if (name := point_of(place)) and name not in removed.present
                ]
                Backup.objects.filter(pk__in=gone).delete()
            number = len(removed.points)
            text = (
                f"{number} point{'s' if number != 1 else ''} removed, {filesizeformat(removed.freed)} freed, "
                f"{len(removed.present)} kept"
            )
            upkeep.log(record, "removed", text, now, points=list(removed.points)[:100], freed=removed.freed)
