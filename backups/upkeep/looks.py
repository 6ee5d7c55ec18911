"""Kind `look`: finds out whether each repository is where it is expected, and has the newest point of each assignment.

Once an hour a round goes through the assignments of a repository, by their ids, and looks for the manifests of those
that no backup and no check has seen within the hour, by name (`engines.at_repositories.sightings`). One record of a
repository is on the backlog at a time, and its settle writes the findings:

    a point that is not there    is damage, like what a check finds; a look that finds it again clears that
    a repository that is away    puts all its sources in doubt: at once if another one, or nothing, is in its place;
                                 after an hour if it is silent

A repository that is away is looked for every ten minutes. One in which a run fails is looked for at once, if the last
look was ten minutes ago, and once when its breaker opens. An edit that moves a repository looks first (`lacking`).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from backups import holdings, locations, repository_orders
from backups.upkeep import checks, restic_turns, retention_decisions
from backups.upkeep import records as upkeep
from external.formatting import several
from external.processes.runner import StopSignal
from jobs import backlog, decisions
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Cancelled, ClaimedRecord, Outcome, Released, Succeeded
from sources import planning
from sources.availability import repository_breaker
from sources.models import Assignment, Backup, CheckRound, Copy, Format, Repository
from sources.planning import names
from storage import layout
from storage.points.checking import GONE, MOST_DAMAGED, of_manifest
from storage.points.store import StorageFailed, StorageStopped

KIND = names.LOOK
EVERY, SOON = timedelta(hours=1), timedelta(minutes=10)
"""The time between two looks at a repository in its place, and at one that is away or not tried yet."""
BATCH = 1000
"""The number of assignments in one order. A restic repository is listed as a whole, so its order has all its
assignments.
"""
OF_RESTIC = 100_000
MOST_MISSING = 500
"""The most missing points of a record, before they are written down."""
RUN_SECONDS, BATCH_SECONDS = 240.0, 60.0
EDIT_SECONDS = 15.0
"""The longest that a user who moves a repository waits, in seconds."""


class WantedPoints(NamedTuple):
    """The wanted points of an assignment: its folder, and names of points; `newest` is one of these."""

    id: int
    source: str
    folder: str
    newest: str
    points: tuple[str, ...]


@dataclass
class LookResult:
    """The findings of a look at a repository, by the ids of assignments. `place`: where it was then; `after`: where the
    round continues, 0 if it has ended. `away`, `silent`: why nothing was looked for.
    """

    repository: int
    place: tuple[str, dict[str, object]]
    began: int
    after: int
    missing: dict[int, list[str]] = field(default_factory=dict)
    there: dict[int, list[str]] = field(default_factory=dict)
    away: str = ""
    silent: str = ""


def plan(now: datetime | None = None) -> int:
    """Put a look at each repository that is due for one on the backlog. Returns how many are new."""
    instant = now or database_clock()
    hour_ago = instant - EVERY
    is_old = Q(looked_at=None) | Q(looked_at__lt=hour_ago) | Q(looked_at__gt=instant + upkeep.AHEAD)
    is_away = (Q(away_since__isnull=False) | ~Q(untried="")) & (Q(looked_at=None) | Q(looked_at__lt=instant - SOON))
    is_due = (Q(made_at__lt=hour_ago) & is_old) | is_away | ~Q(looked_to=0)
    looked_at = Coalesce(OuterRef("looked_at"), OuterRef("made_at"))
    is_blamed = Exists(repository_breaker.blamed_since(looked_at, SOON, instant))
    rows = Repository.objects.filter(is_due | is_blamed).order_by("pk").values_list("pk", "name")
    records = [(str(pk), {"repository": pk, "title": f"repository {name}"}) for pk, name in rows]
    return backlog.enqueue(KIND, records, now=instant) if records else 0


def wanted_in(repository: Repository, seen_since: datetime | None, after: int, at_most: int) -> list[WantedPoints]:
    """The next `at_most` assignments with an id after `after` whose points should be there, copies too: the newest
    point of each, unless a backup or a check has seen it since `seen_since`, and those known to be missing."""
    there = {"assignment": OuterRef("pk"), "repository": repository}
    newest = holdings.newest_first(Backup.objects.filter(**there)).values("snapshot")[:1]
    copies = Copy.objects.filter(**there).exclude(points=[])
    rows = Assignment.objects.filter(
        Exists(Backup.objects.filter(**there)) | Exists(copies), pk__gt=after, source__retired_at=None
    )
    if seen_since:
        seen = Q(last_backup_at__gt=seen_since, policy__repository=repository)
        seen |= Q(check_round__checked_at__gt=seen_since)
        known = Q(check_round__damage__contains=[{"why": GONE}])
        rows = rows.filter(~Exists(Assignment.objects.filter(seen, pk=OuterRef("pk"))) | known)
    columns = rows.order_by("pk").values_list(
        "pk",
        "source__name",
        "directory",
        Subquery(newest),
        Subquery(copies.values("points")[:1]),
        "check_round__damage",
    )
    found, gone = [], (repository.pk, GONE)
    for pk, source, folder, snapshot, copied, damage in columns[:at_most]:
        own = [layout.point_of(snapshot or ""), max(copied or (), key=layout.order_of, default=None)]
        lost = [each["point"] for each in damage or () if (each.get("repository"), each["why"]) == gone]
        points = tuple(dict.fromkeys(filter(None, [*own, *lost])))
        found.append(WantedPoints(pk, source, folder, points[0] if points else "", points))
    return found


def look_for(
    repository: Repository, wanted: Sequence[WantedPoints], stop: StopSignal | None, seconds: float = BATCH_SECONDS
) -> dict[str, object]:
    """The answer of `sightings.look_for`. A repository that cannot be asked is silent. Raises: StorageStopped."""
    try:
        answer: dict[str, object] = repository_orders.ask(
            "look_for",
            locations.location_of(repository),
            stop,
            ours=asdict(locations.identity_of(repository)),
            made=repository.made_at is not None,
            wanted={each.folder: each.points for each in wanted},
            seconds=seconds,
        )
    except (StorageFailed, repository_orders.RepositorySilent) as error:
        return {"silent": str(error)}
    return answer


def look(run: Run) -> Outcome:
    """Continue the round of a repository. Blocks for a few minutes at most."""
    repository = Repository.objects.filter(pk=run.record.payload["repository"]).first()
    if repository is None:
        return Cancelled("it is deleted")
    until, size = time.monotonic() + RUN_SECONDS, OF_RESTIC if repository.format == Format.RESTIC else BATCH
    began = repository.looked_to
    found = LookResult(repository.pk, (repository.location, repository.remote), began, began)
    while time.monotonic() < until and len(found.missing) < MOST_MISSING:
        wanted = wanted_in(repository, run.record.started_at - EVERY, found.after, size)
        try:
            answer = look_for(repository, wanted, run.stop)
        except StorageStopped:
            return Released()
        found.away, found.silent = str(answer.get("away", "")), str(answer.get("silent", ""))
        if found.away or found.silent:
            break
        _sort(found, wanted, answer)
        found.after = wanted[-1].id if len(wanted) == size else 0
        if not found.after:
            break
    return Succeeded(found)


def _sort(found: LookResult, wanted: Iterable[WantedPoints], answer: dict[str, object]) -> None:
    missing = {(folder, point) for folder, point in answer["missing"]}  # type: ignore[attr-defined]
    for each in wanted:
        lost = [point for point in each.points if (each.folder, point) in missing]
        if lost:
            found.missing[each.id] = lost
        if len(lost) < len(each.points):
            found.there[each.id] = [point for point in each.points if point not in lost]


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the findings, unless the repository was moved in the meantime. Runs in the settle's transaction."""
    match outcome:
        case Succeeded(result=LookResult() as found):
            row = Repository.objects.select_for_update(no_key=True).filter(pk=found.repository).first()
            if row and not row.untried and (row.location, row.remote) == found.place:
                _note_away(row, found, record, now)
                note(row, found.missing, found.there, now)


def _note_away(row: Repository, found: LookResult, record: ClaimedRecord, now: datetime) -> None:
    before, row.looked_to = row.away_why, found.after
    if not found.began:
        row.looked_at = record.started_at
    if why := found.away or found.silent:
        row.looked_to, row.away_since = 0, row.away_since or now
        is_sure = found.away or before or now - row.away_since >= EVERY
        row.away_why = why if is_sure else ""
    elif not found.after:
        row.away_since, row.away_why = None, ""
    row.save(update_fields=["looked_at", "looked_to", "away_since", "away_why"])
    if bool(before) != bool(row.away_why):
        what, text = (
            ("missed", row.away_why)
            if row.away_why
            else ("looked through", "it is there, and the newest points were looked for")
        )
        decisions.log(what, f"repository {row}: {text}", record=record, now=now)


def note(repository: Repository, missing: dict[int, list[str]], there: dict[int, list[str]], now: datetime) -> None:
    """Record which points of assignments are missing from a repository, unless something here has removed them in the
    meantime, and which are there. Assignments are locked first, then rounds, in one order (`restic_turns.lock_rounds`).
    """
    known = CheckRound.objects.filter(damage__contains=[{"why": GONE, "repository": repository.pk}])
    ids = {*missing, *known.filter(pk__in=there).values_list("pk", flat=True)}
    if not ids:
        return
    first = upkeep.first_from(checks.EVERY.total_seconds())
    locked = Assignment.objects.select_for_update(no_key=True, of=("self",)).select_related(
        "source", "policy__schedule"
    )
    assignments: list[Any] = list(locked.filter(pk__in=ids).annotate(first=first).order_by("pk"))
    rounds = {
        each.pk: each for each in CheckRound.objects.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True)
    }
    changed, lines = list[CheckRound](), list[decisions.DecisionLine]()
    for each in assignments:
        row = rounds.get(each.pk) or CheckRound(assignment=each, planned_at=each.first - checks.EVERY)
        lost = [damage["point"] for damage in row.damage if _is_lost(damage, repository)]
        new = [name for name in missing.get(each.pk, ()) if name not in lost]
        new = [name for name in new if name in retention_decisions.to_be_there(each, repository)] if new else []
        again = [name for name in lost if name in there.get(each.pk, ())]
        if not new and not again:
            continue
        row.damage = [
            damage for damage in row.damage if not (_is_lost(damage, repository) and damage["point"] in again)
        ]
        row.damage = [*(asdict(of_manifest(name, GONE, repository.pk)) for name in new), *row.damage][:MOST_DAMAGED]
        changed.append(row)
        where = f"in repository {repository}"
        lines += [_line(each, "missed", f"point {name} is not {where} any more") for name in new]
        lines += [_line(each, "there again", f"point {name} is {where} again") for name in again]
    restic_turns.write_rounds(changed, "damage")
    decisions.log_all(lines, now)


def _is_lost(damage: dict[str, object], repository: Repository) -> bool:
    return (damage.get("repository"), damage["why"]) == (repository.pk, GONE)


def _line(assignment: Assignment, what: str, text: str) -> decisions.DecisionLine:
    return decisions.DecisionLine(
        what, f"{assignment.source}: {text}", planning.KIND, planning.subject_of(assignment.pk)
    )


def lacking(row: Repository, stop: StopSignal | None = None, *, is_new: bool) -> str:
    """A sentence about the points that are missing where a repository is to move to. Empty if none was found to be
    missing within EDIT_SECONDS. `is_new`: the place does not name its owner. Raises: StorageStopped.
    """
    old = Repository.objects.get(pk=row.pk)
    until, after, looked_at = time.monotonic() + EDIT_SECONDS, 0, 0
    size = OF_RESTIC if row.format == Format.RESTIC else BATCH
    while wanted := wanted_in(row, None, after, size):
        lost = [(each.source, each.newest) for each in wanted if each.newest]
        if not is_new:
            answer = look_for(row, wanted, stop, max(1.0, until - time.monotonic()))
            if why := answer.get("away") or answer.get("silent"):
                return f"its points cannot be looked for there: {why}"
            missing = {(folder, point) for folder, point in answer["missing"]}  # type: ignore[attr-defined]
            lost = [(each.source, each.newest) for each in wanted if (each.folder, each.newest) in missing]
        looked_at += len(wanted)
        if lost:
            of = f"the newest point of {several(len(lost), 'source')} of {looked_at:,}"
            was = f", which according to our records is in {old.location}" if old.location != row.location else ""
            return f"{of} is not there, such as {lost[0][1]} of {lost[0][0]}{was}"
        after = wanted[-1].id
        if len(wanted) < size or time.monotonic() >= until:
            break
    return ""
