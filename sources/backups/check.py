"""Kind `check`: reads what an assignment has in its repository, some of it each day, and compares it with manifests.

All of it is read within the `check_within` of its policy; each day's record reads its share, and what is known to be
damaged before that. What is found is kept in `CheckRound`, and said in the log. Repositories that its policy had before
are read in turn, as long as backups lie there.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.lookups import LessThanOrEqual
from django.template.defaultfilters import filesizeformat

from jobs import breakers
from jobs.clock import database_clock
from jobs.formatting import several
from jobs.handlers import Run
from jobs.outcomes import Claimed, Outcome, Succeeded
from sources import planning, repository_breaker
from sources.backups import repositories, retention, snapshots, upkeep
from sources.models import Assignment, CheckRound, Repository
from sources.repository_breaker import guarded_by
from sources.storage import layout
from sources.storage.checking import Checked, Damage
from sources.storage.location import RESTIC
from sources.storage.store import StorageFailed

KIND = planning.CHECK
EVERY = timedelta(hours=20)
"""A day, less what a window may be later than the last one."""
DAY = 86_400
SLACK = 0.75
"""Of the time in which all is to be read: absent repositories and closed windows take their part."""


def plan(now: datetime | None = None) -> int:
    """Put on the backlog what was not checked for a day, the longest ago first. Returns how many are new."""
    instant = now or database_clock()
    due = Q(check_round=None) & LessThanOrEqual(upkeep.first_from(EVERY.total_seconds()), instant) | Q(
        check_round__planned_at__lt=instant - EVERY
    )
    assignments = upkeep.due(due & Q(policy__check_within__isnull=False), "check_round__planned_at")
    return _enqueue(assignments, instant, priority=upkeep.PRIORITY)


@transaction.atomic
def check_now(assignment_ids: Iterable[int], *, by: str = "a person", now: datetime | None = None) -> int:
    """Read now all that the rounds of these have left, whatever their window. Returns how many have something to read,
    and are not at work yet."""
    instant = now or database_clock()
    found = upkeep.asked_for(KIND, assignment_ids, "check_round__planned_at", by, instant)
    return _enqueue(found, instant, priority=planning.BACK_UP_NOW_PRIORITY, at_once=True)


def lying_in(repository: Repository) -> list[int]:
    """The ids of the assignments with backups, or copies of them, in a repository."""
    lying = Q(backups__repository=repository) | Q(copies__repository=repository)
    return list(Assignment.objects.filter(lying).values_list("pk", flat=True).distinct())


@transaction.atomic
def _enqueue(assignments: list[Assignment], now: datetime, **how: Any) -> int:
    assignments = list(snapshots.one_a_repository(assignments))
    CheckRound.objects.bulk_create(
        [CheckRound(assignment=each, planned_at=now) for each in assignments],
        update_conflicts=True, unique_fields=["assignment"], update_fields=["planned_at"],
    )  # fmt: skip
    return upkeep.enqueue(KIND, assignments, now, **how) if assignments else 0


def check_files(run: Run) -> Outcome:
    """Read a share, and compare. Blocks for as long as that takes."""
    return upkeep.do(run, _check)


@dataclass
class Read:
    """What was read in which repository (its id), and the `next` one to read in. `unrecorded`: its points without a
    row. `failed`: why nothing was read in others; `ends`: whether a round has ended."""

    repository: int
    next: int
    done: Checked
    unrecorded: list[dict[str, Any]]
    failed: list[str]
    ends: bool


def _check(work: upkeep.Work) -> Read:
    """Read on where the last run ended. A repository of earlier days that fails is named, and the next one is read."""
    assignment, policy = work.assignment, work.assignment.policy
    row = CheckRound.objects.filter(pk=assignment.pk).first() or CheckRound(assignment=assignment)
    holding, failed = repositories.holding(assignment), list[str]()
    homes = list(dict.fromkeys([*holding, *repositories.with_copies(assignment)]))
    days = 1.0 if work.is_asked_for else max(1.0, (policy.check_within or 0) / DAY * SLACK)
    at = next((number for number, each in enumerate(homes) if each.pk == row.repository_id), 0)
    ordered = homes[at:] + homes[:at]
    for number, repository in enumerate(ordered, start=at):
        is_own = repository.pk == policy.repository_id
        if is_own and (held := repository_breaker.refusal(assignment, work.record)):
            raise upkeep.Refused(held)
        if not is_own and (held := breakers.refusal(guarded_by(repository), work.record)):
            failed.append(f"repository {repository}: {held.reason}")
            continue
        goes_on, work.repository = repository.pk == row.repository_id, repository
        try:
            answer = repositories.work(
                "check_files",
                repository,
                work,
                grace=work.grace,
                on_progress=work.on_progress,
                folder=assignment.directory,
                part=row.part if goes_on else "",
                after=row.after if goes_on else "",
                total=row.total if goes_on else 0,
                share=len(homes) / days,
                known=[each for each in row.damage if each.get("repository") == repository.pk],
                recorded=_recorded(assignment, repository),
            )
        except StorageFailed as error:
            failed.append(f"repository {repository}: {error}")
            if is_own or repository is ordered[-1]:
                raise
            continue
        unrecorded, damaged = answer.pop("unrecorded"), answer.pop("damaged")
        unrecorded = unrecorded if repository in holding else []  # of a copy, its points are no backups
        done = Checked(**answer, damaged=[Damage(**each | {"repository": repository.pk}) for each in damaged])
        following = repository if done.part else homes[(number + 1) % len(homes)]
        ends = not done.part and (number + 1) % len(homes) == 0
        return Read(repository.pk, following.pk, done, unrecorded, failed, ends)
    raise StorageFailed("no repository holds a backup of it")


def _recorded(assignment: Assignment, repository: Repository) -> list[str]:
    """Those points that are to be there: by our rows, without what a removal may have removed, and not noted yet."""
    going = retention.going(assignment, repository)
    return [each for each in repositories.recorded(assignment, repository) if each not in going]


def write_down(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """Keep where the round is, and what was found. Runs in the settle's transaction."""
    upkeep.log_outcome(record, outcome, now)
    match outcome:
        case Succeeded(result=Read(done=done) as read):
            row = CheckRound.objects.filter(pk=record.payload["assignment"]).first()
            if row is None:
                return
            before = [(each.get("repository"), each["point"], each["path"]) for each in row.damage]
            goes_on = row.part and row.repository_id == read.repository
            row.read = done.size + (row.read if goes_on else 0)
            row.began_at = (row.began_at if goes_on else record.started_at) if done.part else None
            row.repository_id = read.next
            row.part, row.after, row.total, row.checked_at = done.part, done.after, done.total, now
            if read.ends:
                row.ended_at = now
            row.damage = [each for each in row.damage if each.get("repository") != read.repository]
            row.damage += [asdict(each) for each in done.damaged]
            row.save()
            snapshots.share_check(row)
            upkeep.record_points(row.pk, read.repository, read.unrecorded)
            of_copy = Q(policy__copy_to=read.repository, to_copy_since=None)
            if any(each.place == layout.CURRENT for each in done.damaged):  # a copy brings them once more
                Assignment.objects.filter(of_copy, pk=row.pk).update(to_copy_since=now)
            found = [each for each in done.damaged if (each.repository, each.point, each.path) not in before]
            _log(record, done, found, now)
            for reason in read.failed:
                upkeep.log(record, "failed", f"{reason}; nothing was read there", now)


def _log(record: Claimed, done: Checked, found: list[Damage], now: datetime) -> None:
    text = f"{several(done.files, 'file')} read"
    text += f", {filesizeformat(done.size)}" if done.size or not done.files else ""  # restic names no bytes
    text += "" if done.part else "; that was the last part of a round"
    upkeep.log(record, "checked", text, now, size=done.size, filled=done.filled)
    if found:
        upkeep.log(record, "damaged", in_words(found), now, damage=[asdict(each) for each in found[:20]])
    if done.mended:
        upkeep.log(record, "mended", f"{len(done.mended)} damaged before, as {done.mended[0]!r}", now)


def in_words(found: list[Damage]) -> str:
    """As `2 files: 'a' of 20261121T065755Z in current: it is missing; …`. restic names none: it says what is wrong."""
    named = "; ".join(
        each.why if each.place == RESTIC else f"{each.path!r} of {each.point} in {each.place}: {each.why}"
        for each in found[:3]
    )
    return f"{several(len(found), 'file')}: {named}{'; …' if len(found) > 3 else ''}"
