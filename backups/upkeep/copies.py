"""Kind `copy`: brings the points of an assignment into the second repository that its policy names (`copy_to`).

A backup notes that its point is not in the copy yet (`Assignment.to_copy_since`); each minute the assignments with such
a note are put on the backlog, for the window of copies. A copy loses nothing when it is interrupted
(`storage/points/copying.py`), so it is stopped when its window closes, and when a backup of its source waits behind it;
it continues later.

Points that the policy does not keep are removed from the copy once all new ones are there: by its rules, and never
because they are gone from the first repository: a point deleted there, or encrypted by an intruder, is still here.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.utils import Error
from django.template.defaultfilters import filesizeformat

from backups import holdings, known_points, locations, repository_orders
from backups.repository_state import not_writable, note_made, note_room
from backups.upkeep import damage, records, restic_turns, retention, retention_decisions
from external.formatting import several
from jobs import breakers
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, ClaimedRecord, Failed, Outcome, Postponed, Succeeded
from jobs.prepared_statements import storable
from jobs.states import Status, WaitingFor
from sources import planning
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Copy, Format, Policy, Repository
from storage import layout
from storage.places.locks import Busy
from storage.points.checking import GONE
from storage.points.copies import CopyResult
from storage.points.store import StorageFailed

KIND = planning.COPY
AGAIN_AFTER = timedelta(hours=6)
"""The wait after a record that gave up, or was cancelled."""
LOOK_EVERY_SECONDS = 10.0
SHOWN = 6
YIELDS_FOR = timedelta(minutes=1)
YIELDED = "a backup of its source, or a record that needs one of its repositories alone, waits; it continues after"


def plan(now: datetime | None = None) -> int:
    """Put the assignments with a point that is not in its copy on the backlog, those that have waited longest first.
    Returns the number of new records.
    """
    instant = now or database_clock()
    of_it = Copy.objects.filter(assignment=OuterRef("pk"), repository=OuterRef("policy__copy_to"))
    lately = (instant - AGAIN_AFTER, instant + records.AHEAD)
    is_planned = of_it.filter(planned_at__gte=OuterRef("to_copy_since"), planned_at__range=lately)
    behind = Q(~Exists(is_planned), to_copy_since__isnull=False, policy__copy_to__isnull=False)
    assignments = records.due(behind, "to_copy_since")
    return _enqueue(assignments, instant, priority=records.PRIORITY) if assignments else 0


@transaction.atomic
def copy_now(assignment_ids: Iterable[int], *, by: str = "a user", now: datetime | None = None) -> int:
    """Copy these now, even outside of their windows. Returns the number that have something to copy and are not being
    copied already."""
    instant = now or database_clock()
    ids = Assignment.objects.filter(pk__in=assignment_ids, policy__copy_to__isnull=False).values_list("pk", flat=True)
    found = records.asked_for(KIND, ids, "to_copy_since", by, instant)
    return _enqueue(found, instant, priority=planning.BACK_UP_NOW_PRIORITY, at_once=True)


@transaction.atomic
def _enqueue(assignments: list[Assignment], now: datetime, **how: Any) -> int:
    in_order = sorted(assignments, key=lambda each: each.pk)  # two that plan at the same moment lock in one order
    Copy.objects.bulk_create(
        [Copy(assignment=each, repository_id=each.policy.copy_to_id or 0, planned_at=now) for each in in_order],
        update_conflicts=True, unique_fields=["assignment", "repository"], update_fields=["planned_at"],
    )  # fmt: skip
    return records.enqueue(KIND, assignments, now, opening=Policy.copy_opening, **how) if assignments else 0


@dataclass
class Brought:
    """The result of a run: the id of the repository, the last backup that it copied, and the points that are there.

    `removed`: points that the policy does not keep; `trouble`: why some were not removed, or still take up space.
    """

    repository: int
    as_of: datetime | None
    done: CopyResult
    removed: list[str] = field(default_factory=list)
    trouble: str = ""


class AtCopy(records.Work):
    """A running copy, which a backup of its source may end."""

    stops_at_close = True

    def __init__(self, run: Run, assignment: Assignment) -> None:
        super().__init__(run, assignment)
        of_source = Assignment.objects.filter(source=assignment.source_id).values_list("pk", flat=True)
        subjects = [planning.subject_of(pk) for pk in of_source]
        waiting = Q(status=Status.WAITING, waiting_for=WaitingFor.THROTTLE)
        self._behind = BacklogRecord.objects.filter(waiting, kind=planning.KIND, subject__in=subjects)
        self._places = [each for each in (self.repository, assignment.policy.copy_to) if each]
        self._look_at, self._yields = time.monotonic() + LOOK_EVERY_SECONDS, False

    def is_set(self) -> bool:
        if not self._yields and (now := time.monotonic()) >= self._look_at:
            self._look_at = now + LOOK_EVERY_SECONDS
            with suppress(Error):  # a database that is away is found out elsewhere
                self._yields = self._behind.exists() or any(map(restic_turns.is_wanted_alone, self._places))
        return self._yields or super().is_set()

    @property
    def stopped(self) -> Outcome:
        if self._yields:
            return Postponed(database_clock() + YIELDS_FOR, WaitingFor.RECHECK, YIELDED)
        return super().stopped


def copy_points(run: Run) -> Outcome:
    """Copy the points that are not there yet, and remove those that are not kept. Blocks until that is done."""
    return records.do(run, _copy, at_work=AtCopy)


def _copy(work: records.Work) -> Succeeded:
    assignment, policy = work.assignment, work.assignment.policy
    if (target := policy.copy_to) is None:
        raise records.UpkeepRefused(Cancelled("its policy no longer wants copies"))
    for repository in (policy.repository, target):
        if held := breakers.refusal(guarded_by(repository), work.record):
            raise records.UpkeepRefused(held)
        if restic_turns.is_wanted_alone(repository):
            raise Busy(restic_turns.WANTED_ALONE.format(repository))
    rows = holdings.newest_first(assignment.backups.filter(repository=policy.repository))
    newest = next((name for each in rows if (name := layout.point_of(each.snapshot))), None)
    found = Brought(target.pk, assignment.last_backup_at, CopyResult())
    if newest is None:  # its policy was given another repository, where nothing is yet
        row = Copy.objects.filter(assignment=assignment, repository=target).first()
        found.done.points = row.points if row else []
        return Succeeded(found)
    try:
        found.done = _bring(work, policy.repository, target, newest)
        if newest not in found.done.points:
            raise StorageFailed("; ".join(found.done.wrong) or f"point {newest} did not come there")
    except StorageFailed as error:
        fault_of = guarded_by(target) if not_writable(target, work) else None
        text = f"copy of repository {policy.repository} to {target}: {error}"
        raise records.UpkeepRefused(Failed(text, fault_of=fault_of)) from None
    note_made(target)
    _thin(work, target, found)
    return Succeeded(found, proves=guarded_by(target))


def _bring(work: records.Work, repository: Repository, target: Repository, newest: str) -> CopyResult:
    """Raises: StorageFailed, StorageStopped, Busy."""
    policy = work.assignment.policy
    locations.check_tried(target)
    place, ours = locations.location_of(target), asdict(locations.identity_of(target))
    answer = repository_orders.work(
        "copy_points",
        repository,
        work,
        grace=work.grace,
        on_progress=work.on_progress,
        folder=work.assignment.directory,
        target=place.as_json(),
        ours=ours,
        made=target.made_at is not None,
        newest=newest,
        there=holdings.newest_in(target, work.assignment),
        recorded=holdings.recorded(work.assignment, target),
        again=_again(work.assignment, target),
        damaged=damage.places(work.assignment, target),
        bandwidth=policy.copy_bandwidth,
        zone=policy.schedule.zone,
        reserve=settings.RESERVE_PERCENT,
        known=known_points.of(work.assignment, repository),
        known_there=known_points.of(work.assignment, target),
        keep=known_points.keeping(work.assignment, target),
        owner=locations.owner_of(repository),
    )
    note_room(target, answer.pop("room"))
    if problem := answer.get("problem"):
        raise StorageFailed(problem)
    return CopyResult(**answer)


def _again(assignment: Assignment, target: Repository) -> list[str]:
    """The points that the policy keeps and the copy lacks although the first repository has their backups; empty if the
    copy is not in a restic repository.
    """
    if target.format == Format.RESTIC:
        lost = {name for home, name in retention_decisions.known_to_be_lost(assignment) if home == target.pk}
        there = set(holdings.recorded(assignment, target)) - lost
        names = there.union(holdings.recorded(assignment, assignment.policy.repository))
        with suppress(ValueError):  # rules that cannot be read; retention reports that
            decided = retention_decisions.decide_of_copy(assignment, target, names)
            return [each.point.name for each in decided if each.reasons and each.point.name not in there]
    return []


def _thin(work: records.Work, target: Repository, found: Brought) -> None:
    """Remove the points from the copy that the policy does not keep, unless a backup looked wrong."""
    if work.assignment.held_back_since:
        return
    try:
        points, came, lacking = found.done.points, len(found.done.new), found.done.incomplete
        decided = retention_decisions.decide_of_copy(work.assignment, target, points, came=came, lacking=lacking)
        if answer := retention.thin(work, target, decided):
            found.done.points, found.removed = list(answer["present"]), list(answer["points"])
            retention.prune(work, target)
    except StorageFailed as error:
        not_done = "" if found.removed else "points that its policy does not keep were not removed from the copy: "
        found.trouble = f"{not_done}{error}"
        return
    except Busy:  # another restic works there: a record of retention waits for its end (`write_down`)
        return


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the contents of the copy. Runs in the settle's transaction."""
    records.log_outcome(record, outcome, now)
    rows = Assignment.objects.filter(pk=record.payload["assignment"])
    match outcome:
        case Succeeded(result=Brought() as found):
            # locked first, as everywhere that an assignment and its dependent rows are written
            if (assignment := rows.select_for_update(no_key=True).first()) is None:
                return
            before, problem = "", problem_of(found)
            if row := assignment.copies.select_related("repository").filter(repository=found.repository).first():
                before, lost = row.error, _lost(assignment, row, found.done)
                retention.note_manifests(row.assignment_id, row.repository_id, lost, found.done.points, now)
                row.points = sorted({*found.done.points, *lost}, key=layout.order_of)
                row.incomplete = _incomplete(row, found.done)
                row.copied_at, row.as_of, row.size = now, found.as_of, found.done.size
                row.error = problem = storable(problem_of(found, row.incomplete))
                row.came = 0 if found.removed else row.came + len(found.done.new)
                row.save(update_fields=["points", "copied_at", "as_of", "size", "error", "came", "incomplete"])
            known_points.replace(assignment.pk, found.repository, found.done.digests)
            known_points.forget_marks(assignment.pk, found.repository)
            rows.update(to_copy_since=None if assignment.last_backup_at == found.as_of else now)
            retention.plan([assignment], now)
            records.log(record, "copied", as_text(found), now, size=found.done.size, points=found.done.new[:100])
            if problem and problem != before:
                records.log(record, "damaged", problem, now)
        case Failed(error, rescued=False) if record.queue == planning.BACKUPS:
            copies = Copy.objects.filter(assignment__in=rows, assignment__policy__copy_to=F("repository"))
            copies.update(error=error.partition("\n")[0])


def _lost(assignment: Assignment, copy: Copy, done: CopyResult) -> dict[str, str]:
    """The points that a copy should keep, according to the database, and no longer has: point → why. Each run reports
    them, as a check does, until the policy's rules drop them; in a restic repository the next run copies them again.
    """
    with suppress(ValueError):  # rules that cannot be read; retention reports that
        points, lacking = {*copy.points, *done.points}, done.incomplete
        decided = retention_decisions.decide_of_copy(assignment, copy.repository, points, lacking=lacking)
        kept = (each.point.name for each in decided if each.reasons not in ((), (retention_decisions.TOO_MANY,)))
        return {name: GONE for name in kept if name not in done.points}
    return {}


def _incomplete(copy: Copy, done: CopyResult) -> dict[str, list[str]]:
    """Incomplete points of a copy, as found now → all warnings of the newest; of others the first, their number."""
    before = {each: said for each, said in copy.incomplete.items() if each not in done.new}
    found = {each: said for each, said in (before | done.incomplete).items() if each in copy.points}
    shown = {each: said if each == copy.points[-1] else said[:1] for each, said in found.items()}
    return {each: [storable(text) for text in said] for each, said in shown.items()}


def problem_of(found: Brought, incomplete: Mapping[str, list[str]] = MappingProxyType({})) -> str:
    """The problem with a copy that has all points; empty if there is none. `incomplete`: its incomplete points, with
    their warnings; only the newest one counts, without its name, so that the same files are reported once.
    """
    number, untried = found.done.wrong_files, found.done.untried
    wrong = "; ".join(found.done.wrong[:SHOWN])
    damaged = f"{several(number, 'file')} or points of it are damaged or missing: {wrong}" if number else ""
    names = ", ".join(untried[:SHOWN]) + (", …" if len(untried) > SHOWN else "")
    more = f"{several(len(untried), 'more point')} not there, and tried by later copies: {names}" if untried else ""
    lacking = "; ".join(incomplete.get(next(iter(found.done.points[::-1]), ""), [])[:SHOWN])
    lacking = f"its newest point is incomplete: {lacking}" if lacking else ""
    return "; ".join(filter(None, (damaged, lacking, more, found.trouble)))


def as_text(found: Brought) -> str:
    """The result as text, such as `2 points copied (7 files, 12 KB), 30 there, 1 removed`."""
    new, points = len(found.done.new), len(found.done.points)
    size = f", {filesizeformat(found.done.size)}" if found.done.size else ""  # restic names no bytes
    text = f"{several(new, 'point')} copied ({several(found.done.files, found.done.unit)}{size})"
    return f"{text}, {points} there" + (f", {len(found.removed)} removed" if found.removed else "")
