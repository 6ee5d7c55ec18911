"""Kind `check`: reads what an assignment has in its repository, some of it each day, and compares it with manifests.

All of it is read within the `check_within` of its policy; each day's record reads its share, and what is known to be
damaged before that. What is found is kept in `CheckRound`, and said in the log.
"""

from dataclasses import asdict
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.template.defaultfilters import filesizeformat

from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Claimed, Outcome, Succeeded
from sources import planning, repository_breaker
from sources.backups import repositories, upkeep
from sources.models import CheckRound
from sources.storage.checking import Checked, Damage

KIND = planning.CHECK
EVERY = timedelta(hours=20)
"""A day, less what a window may be later than the last one."""
SLACK = 0.75
"""Of the time in which all is to be read: absent repositories and closed windows take their part."""


def plan(now: datetime | None = None) -> int:
    """Put on the backlog what was not checked for a day, the longest ago first. Returns how many are new."""
    instant = now or database_clock()
    due = Q(check_round=None) | Q(check_round__planned_at__lt=instant - EVERY)
    assignments = upkeep.due(due & Q(policy__check_within__isnull=False), "check_round__planned_at")
    if not assignments:
        return 0
    with transaction.atomic():
        CheckRound.objects.bulk_create(
            [CheckRound(assignment=each, planned_at=instant) for each in assignments],
            update_conflicts=True, unique_fields=["assignment"], update_fields=["planned_at"],
        )  # fmt: skip
        return upkeep.enqueue(KIND, assignments, instant, priority=upkeep.PRIORITY)


def check_files(run: Run) -> Outcome:
    """Read a share, and compare. Blocks for as long as that takes."""
    return upkeep.do(run, _check)


def _check(work: upkeep.Work) -> Checked:
    assignment, policy = work.assignment, work.assignment.policy
    if held := repository_breaker.refusal(assignment, work.record):
        raise upkeep.Refused(held)
    row = CheckRound.objects.filter(pk=assignment.pk).first() or CheckRound(assignment=assignment)
    days = (policy.check_within or 0) / 86_400
    answer = repositories.work(
        "check_files",
        policy.repository,
        work,
        grace=work.grace,
        on_progress=work.on_progress,
        folder=assignment.directory,
        part=row.part,
        after=row.after,
        total=row.total,
        share=1 / max(1, days * SLACK),
        known=row.damage,
    )
    return Checked(**answer | {"damaged": [Damage(**each) for each in answer["damaged"]]})


def write_down(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """Keep where the round is, and what was found. Runs in the settle's transaction."""
    upkeep.log_outcome(record, outcome, now)
    match outcome:
        case Succeeded(result=Checked() as done):
            row = CheckRound.objects.filter(pk=record.payload["assignment"]).first()
            if row is None:
                return
            before = [(each["point"], each["path"]) for each in row.damage]
            row.read = done.size + (row.read if row.part else 0)
            row.began_at = (row.began_at if row.part else record.started_at) if done.part else None
            row.part, row.after, row.total, row.checked_at = done.part, done.after, done.total, now
            if not done.part:
                row.ended_at = now
            row.damage = [asdict(each) for each in done.damaged]
            row.save()
            _log(record, done, [each for each in done.damaged if (each.point, each.path) not in before], now)


def _log(record: Claimed, done: Checked, found: list[Damage], now: datetime) -> None:
    text = f"{done.files} file{'s' if done.files != 1 else ''} read, {filesizeformat(done.size)}"
    text += "" if done.part else "; that was the last part of a round"
    upkeep.log(record, "checked", text, now, size=done.size, filled=done.filled)
    if found:
        upkeep.log(record, "damaged", in_words(found), now, damage=[asdict(each) for each in found[:20]])
    if done.mended:
        upkeep.log(record, "mended", f"{len(done.mended)} damaged before, as {done.mended[0]!r}", now)


def in_words(found: list[Damage]) -> str:
    """As `2 files: 'a' of 20261121T065755Z in current: it is missing; …`."""
    named = "; ".join(f"{each.path!r} of {each.point} in {each.place}: {each.why}" for each in found[:3])
    return f"{len(found)} file{'s' if len(found) != 1 else ''}: {named}{'; …' if len(found) > 3 else ''}"
