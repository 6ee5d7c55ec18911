"""Kind `retention`: removes the points of an assignment that its policy does not keep.

A backup that succeeds puts its record on the backlog when there is something to remove, and so does a copy whose
repository was busy at its end. The repository's breaker does not hold it back, since it makes room in a full
repository. The points that the repository itself lists are what counts, so a removal whose result was lost is noted by
the next one; until then no check misses the points that it was to remove (`retention_decisions.going`). A backup's row
is deleted with its point. A point that should be there and is missing keeps its row and is reported as damage, as a
check would report it; from then on another point is kept in its place. When a policy moves to another repository, its
rules still apply to the points in the earlier ones; an earlier one that fails is reported, and delays nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.template.defaultfilters import filesizeformat

from backups import holdings, known_points, locations, repository_orders
from backups.upkeep import records
from backups.upkeep.retention_decisions import copies_of, decide, decide_of_copy, has_more, known_to_be_lost
from external.formatting import several
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Cancelled, ClaimedRecord, Outcome, Succeeded
from sources import planning
from sources.availability.check import not_wanted
from sources.domain.retention import MISSING, KeptPoint
from sources.models import Assignment, Backup, CheckRound, Copy, Format, Repository
from storage import layout
from storage.places.locks import Busy
from storage.points.checking import GONE, of_manifest
from storage.points.store import StorageFailed, StorageStopped

KIND = planning.RETENTION
MINUTES = 24 * 60
PRUNE_EVERY = timedelta(hours=20)
"""The shortest time between two prunes. Each reads the data of all snapshots, so one serves many sources."""
UNREADABLE = "its manifest cannot be read, so the point cannot be restored, and the one after it is not removed"


@dataclass
class Removal:
    """The result of a removal: the removed `points`, how many were `kept`, the bytes of files that were `freed`, and
    those that restic `pruned`.

    `failed`: the repositories in which it failed, each with the reason; `lost`: points that should stay, are not there,
    and were not known to be missing. By repository: `unrecorded` points, which had no row, those that are `there`, and
    problems with the `manifests` of points that stay.
    """

    points: list[str] = field(default_factory=list)
    kept: int = 0
    freed: int = 0
    pruned: int = 0
    failed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unrecorded: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    there: dict[int, list[str]] = field(default_factory=dict)
    manifests: dict[int, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def count(self, repository: Repository, answer: dict[str, Any]) -> None:
        """Add the removed points of backups to the result."""
        self.points += answer["points"]
        self.kept += len(answer["present"])
        self.freed += answer["freed"]
        self.unrecorded[repository.pk] = answer["unrecorded"]

    def note_manifests(self, repository: Repository, decided: list[KeptPoint], answer: dict[str, Any]) -> None:
        """Add the points that are not there, and those whose manifests cannot be read, to the result."""
        absent = [each for each in decided if each.reasons and each.point.name not in answer["present"]]
        self.lost += [each.point.name for each in absent if MISSING not in each.reasons]
        self.there[repository.pk] = answer["present"]
        self.manifests[repository.pk] |= dict.fromkeys(answer["damaged"], UNREADABLE)
        self.manifests[repository.pk] |= {each.point.name: GONE for each in absent}


@transaction.atomic
def plan_retired(now: datetime | None = None) -> int:
    """Put a record on the backlog for each retired source with points to remove: once a day, each in a different
    minute. Returns the number of new records.
    """
    instant = now or database_clock()
    has_points = Q(Exists(Backup.objects.filter(assignment=OuterRef("pk"))))
    has_points |= Q(Exists(Copy.objects.filter(assignment=OuterRef("pk")).exclude(points=[])))
    retired = Assignment.objects.filter(has_points, source__retired_at__isnull=False).annotate(minute=F("pk") % MINUTES)
    minute = instant.hour * 60 + instant.minute
    related = retired.filter(minute=minute).select_related("source", "policy__schedule", "policy__repository")
    return plan(related.order_by("pk"), instant)


def plan(assignments: Iterable[Assignment], now: datetime | None = None) -> int:
    """Put a record on the backlog for each assignment with points to remove. Returns the number of new records.

    Those that are held back, whose source is paused, or whose policy is disabled are left out.
    """
    instant = now or database_clock()
    free = (each for each in assignments if not each.held_back_since and not not_wanted(each, although_retired=True))
    return records.enqueue(KIND, [each for each in free if has_more(each, instant)], instant)


def remove_points(run: Run) -> Outcome:
    """Remove the points that the policy does not keep. Blocks for as long as that takes."""
    return records.do(run, _remove, although_retired=True)


def _remove(work: records.Work) -> Removal:
    assignment = work.assignment
    if since := assignment.held_back_since:
        text = (
            f"nothing has been removed since {since:%Y-%m-%d %H:%M} UTC, when its backup looked wrong "
            f"({assignment.held_back_why}): look at it, and accept it if it is right"
        )
        raise records.UpkeepRefused(Cancelled(text))
    done = Removal()
    try:
        _remove_all(work, done)
    except (StorageFailed, Busy, StorageStopped):
        if done.manifests:
            _log(work.record, done, database_clock())
        raise
    return done


def _remove_all(work: records.Work, done: Removal) -> None:
    """Remove points from all its repositories. Raises: StorageFailed, StorageStopped, Busy, even when some points are
    gone already.
    """
    assignment = work.assignment
    decided = defaultdict[int, list[KeptPoint]](list)
    for each in decide(assignment, now=work.record.started_at):
        decided[each.point.repository].append(each)
    for repository in holdings.holding(assignment):
        work.repository = repository
        is_own = repository.pk == assignment.policy.repository_id
        try:
            if answer := thin(work, repository, decided[repository.pk]):
                done.count(repository, answer)
                done.note_manifests(repository, decided[repository.pk], answer)
            if answer or is_own:  # an earlier attempt may have removed points without freeing their space
                done.pruned += prune(work, repository)
        except StorageFailed as error:
            if is_own:
                raise
            done.failed.append(f"repository {repository}: {error}")
    _thin_copies(work, done)


def thin(work: records.Work, repository: Repository, decided: list[KeptPoint]) -> dict[str, Any] | None:
    """Remove the points of an assignment from a repository that are not kept, with their rows. Returns the result; None
    if all are kept. Raises: StorageFailed, StorageStopped, Busy.
    """
    goes = [each.point.name for each in decided if not each.reasons]
    stays = [each.point.name for each in decided if each.reasons and MISSING not in each.reasons]
    lost = [each.point.name for each in decided if MISSING in each.reasons]
    if not goes:
        return None
    if work.assignment.source.retired and len(goes) == len(decided):
        ours = known_points.of(work.assignment, repository)
        answer = repository_orders.remove_folder(repository, work, **_at(work), known=ours)
        _note_pruned(repository)
    else:
        which: dict[str, Any] = {"points": goes, "stay": stays, "lost": lost}
        which["known"] = known_points.of(work.assignment, repository)
        which["owner"] = locations.owner_of(repository)
        which["is_chained"] = known_points.are_chained(work.assignment, repository, stays + lost)
        answer = repository_orders.work("remove_points", repository, work, **_at(work), **which)
    _note_gone(work.assignment, repository, set(goes).difference(answer["present"]))
    # a point that came without a row is there, so it is not given up; nor is one that has a row and is lost
    known_points.give_up(work.assignment, repository, answer["present"])
    return answer


def prune(work: records.Work, repository: Repository) -> int:
    """Prune a restic repository if that is due: free the data that no point refers to. Returns the freed bytes. Raises:
    StorageFailed, StorageStopped, Busy.
    """
    last = repository.pruned_at
    if repository.format != Format.RESTIC or (last and work.record.started_at - last < PRUNE_EVERY):
        return 0
    try:
        answer = repository_orders.work("prune", repository, work, **_at(work))
    except StorageFailed as error:
        raise StorageFailed(f"the data of removed points still takes up space: {error}") from error
    _note_pruned(repository)
    return int(answer["freed"])


def _note_pruned(repository: Repository) -> None:
    """Store that restic has just freed space."""
    if repository.format == Format.RESTIC:
        repository.pruned_at = database_clock()
        repository.save(update_fields=["pruned_at"])


def _at(work: records.Work) -> dict[str, Any]:
    return {"grace": work.grace, "on_progress": work.on_progress, "folder": work.assignment.directory}


@transaction.atomic
def _note_gone(assignment: Assignment, repository: Repository, gone: set[str]) -> None:
    """Note the removed points at once: the settle may come hours later, or never. A removed point never returns, since
    its name is not used again.
    """
    # locked first, as wherever an assignment and its dependent rows are written
    Assignment.objects.select_for_update(no_key=True).filter(pk=assignment.pk).first()
    rows = assignment.backups.filter(repository=repository).order_by().values_list("pk", "snapshot")
    if pks := [pk for pk, place in rows if layout.point_of(place) in gone]:
        Backup.objects.filter(pk__in=pks).delete()
        records.count_what_is_left(assignment, assignment.backups.all())
    known_points.forget(assignment.pk, repository.pk, gone)
    for copy in assignment.copies.filter(repository=repository):
        copy.points = [each for each in copy.points if each not in gone]
        copy.incomplete = {each: said for each, said in copy.incomplete.items() if each not in gone}
        if gone:
            copy.came, copy.thinned_by = 0, assignment.policy.keep
        copy.save(update_fields=["points", "came", "thinned_by", "incomplete"])


def _thin_copies(work: records.Work, done: Removal) -> None:
    for copy in copies_of(work.assignment):
        decided = decide_of_copy(work.assignment, copy.repository, copy.points, work.record.started_at)
        try:
            if answer := thin(work, copy.repository, decided):
                done.note_manifests(copy.repository, decided, answer)
                prune(work, copy.repository)
        except StorageFailed as error:
            done.failed.append(f"copy in repository {copy.repository}: {error}")


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the findings about the remaining points. Runs in the settle's transaction."""
    records.log_outcome(record, outcome, now)
    match outcome:
        case Succeeded(result=Removal() as done):
            assignment_id = record.payload["assignment"]
            # locked first, as wherever an assignment and its dependent rows are written
            locked = Assignment.objects.select_for_update(no_key=True).filter(pk=assignment_id)
            if (assignment := locked.first()) is None:
                return
            for repository_id, unrecorded in done.unrecorded.items():
                records.record_points(assignment_id, repository_id, unrecorded)
            for repository_id, wrong in done.manifests.items():
                note_manifests(assignment_id, repository_id, wrong, done.there[repository_id], now)
            if done.lost:
                lost = known_to_be_lost(assignment)
                rows = assignment.backups.order_by().values_list("pk", "repository", "snapshot")
                gone = [pk for pk, home, place in rows if (home, layout.point_of(place)) in lost]
                records.count_what_is_left(assignment, assignment.backups.exclude(pk__in=gone))
            _log(record, done, now)


def note_manifests(
    assignment_id: int, repository_id: int, wrong: Mapping[str, str], there: Iterable[str], now: datetime
) -> None:
    """Store which points of an assignment in a repository have no manifest, or one that cannot be read, and why.
    Earlier findings about points that are `there` are kept, since not all manifests were read.
    """
    rows = CheckRound.objects.filter(pk=assignment_id).select_for_update(no_key=True)  # a check may write here as well
    row = rows.first() or CheckRound(pk=assignment_id, planned_at=now)
    found = [asdict(of_manifest(point, why, repository_id)) for point, why in wrong.items()]
    stay = set(there) - wrong.keys()
    others = [
        each
        for each in row.damage
        if (each.get("repository"), each["place"]) != (repository_id, layout.MANIFESTS)
        or (each["why"] != GONE and each["point"] in stay)
    ]
    if row.damage != others + found:
        row.damage = others + found
        row.save()


def _log(record: ClaimedRecord, done: Removal, now: datetime) -> None:
    text = f"{several(len(done.points), 'point')} removed, {filesizeformat(done.freed + done.pruned)} freed"
    text += f", {done.kept} kept" if done.manifests else ""
    records.log(record, "removed", text, now, points=done.points[:100], freed=done.freed + done.pruned)
    wrong = [each for of_one in done.manifests.values() for each in of_one.items()]
    if damaged := [point for point, why in wrong if why == UNREADABLE]:
        text = f"the manifest of point {', '.join(damaged[:3])} cannot be read, so the point after it stays"
        records.log(record, "damaged", text, now, points=damaged[:100])
    if done.lost:
        points = ", ".join(done.lost[:3])
        text = f"the manifest of point {points} is missing, so it cannot be restored; no point is removed now"
        records.log(record, "damaged", text, now, points=done.lost[:100])
    for reason in done.failed:
        records.log(record, "failed", f"{reason}; the files there stay", now)
