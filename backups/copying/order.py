"""The order for a copy: everything that its process needs, from our rows and stored secrets, or the reason why there is
none. Nothing here contacts the source or the repository.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.conf import settings
from django.utils.text import slugify

from backups import holdings, known_points, locations
from backups.copying import staging
from backups.specifications import refused_in_clear, specification_of
from backups.upkeep import damage
from engines.base import BackupTask
from jobs import conf
from jobs.handlers import Run
from jobs.outcomes import Failed, Outcome
from sealing.lookup import SecretNotFound
from sources.availability import repository_breaker
from sources.declarations import overlaps
from sources.models import Assignment
from storage import layout
from storage.places.identity import Identity
from storage.places.location import RESTIC, Location
from storage.points.store import StorageFailed


@dataclass(frozen=True)
class CopyOrder:
    """A task for an engine, and the expected repository: `ours` is the identity that it must have; `made`: an earlier
    backup has written that there; `newest`: the newest point of the assignment in it, empty if it has none."""

    task: BackupTask
    ours: Identity
    made: bool
    newest: str


def order_for(assignment: Assignment, run: Run) -> CopyOrder | Outcome:
    """The order for a claimed backup, or the outcome if none can be given: a secret that is not found, or that would be
    sent in clear. Chooses the assignment's folder at its first backup."""
    source, repository = assignment.source, assignment.policy.repository
    try:
        specification, location = specification_of(source), locations.location_of(repository)
        ours = locations.identity_of(repository)
    except SecretNotFound as error:
        return Failed(f"source {source.name}: {error}")
    except StorageFailed as error:
        return Failed(str(error), fault_of=repository_breaker.guarded_by(repository))
    if refusal := refused_in_clear(specification):
        return Failed(f"source {source.name} {refusal}")
    task = BackupTask(
        source=specification,
        location=location,
        folder=_folder(assignment),
        started_at=run.record.started_at,
        record=str(run.record.id),
        **_by_policy(assignment),
        **_by_earlier_backups(assignment, location),
    )
    return CopyOrder(task, ours, repository.made_at is not None, holdings.newest_in(repository, assignment))


def _folder(assignment: Assignment) -> str:
    """The folder of an assignment in its repository: chosen at its first backup, kept when it is renamed."""
    if not assignment.directory:
        source = slugify(assignment.source.name) or "source"
        policy = slugify(assignment.policy.schedule.name) or "policy"
        assignment.directory = f"{source}-{assignment.pk}/{policy}"
        assignment.save(update_fields=["directory"])
    return assignment.directory


def _by_policy(assignment: Assignment) -> dict[str, Any]:
    policy = assignment.policy
    options: dict[str, Any] = policy.engine_options
    if left_out := overlaps.left_out_of(assignment.source):
        options = options | {"exclude": [*options.get("exclude", []), *left_out]}
    return {
        "options": options,
        "connect_timeout": policy.connect_timeout,
        "least_rate": policy.least_rate,
        "policy": str(policy),
        "zone": policy.schedule.zone,
        "grace": conf.ending_seconds(),
        "reserve": settings.RESERVE_PERCENT,
        "staging": str(staging.root()),
    }


def _by_earlier_backups(assignment: Assignment, location: Location) -> dict[str, Any]:
    repository = assignment.policy.repository
    damaged = damage.places(assignment, repository).values()
    return {
        "known": known_points.of(assignment, repository),
        "damaged": frozenset(chain.from_iterable(damaged)),
        **(_last_snapshot(assignment) if location.format == RESTIC else {}),
    }


def _last_snapshot(assignment: Assignment) -> dict[str, Any]:
    """The snapshot that restic compares a source with. It is the last by its name: after a clock that was ahead, rows
    of later points began earlier."""
    rows = assignment.backups.filter(repository=assignment.policy.repository_id).order_by()
    points = ((name, row) for row in rows.values_list("snapshot", "files") if (name := layout.point_of(row[0])))
    _, (snapshot, files) = max(points, key=lambda each: layout.order_of(each[0]), default=("", ("", None)))
    return {"last_snapshot": snapshot, "last_files": files}
