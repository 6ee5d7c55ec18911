"""Conditions of repositories, and of the backups, checks, copies and drills in them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, ExpressionWrapper, F, Max, Min, Value
from django.db.models.functions import Coalesce

from backups.hooks import debts
from backups.repository_state import not_writable_of, of_directories
from backups.upkeep.damage import as_text
from external.formatting import moment
from fleet import assignment_findings, status
from fleet.assignment_findings import AssignmentFinding
from jobs.conf import PROGRAM
from operations.finding import COUNT_TO, Case, Finding, Look, Severity, condition, ok, rows, warning
from sources.declarations.hook_file import HookUnusable, hook_of
from sources.models import Assignment, Policy, RecoveryKey, Repository, SelfBackup, Source
from storage.points.checking import Damage


@condition()
def protection(look: Look) -> Finding:
    """Sources without a backup that is recent enough, or whose backups fail."""
    summary, wrong, do = status.verdict(look.now)
    numbers = {word.value: number for word, number in summary.by_status.items()}
    if wrong:
        return warning(wrong, do, **numbers)
    return ok(
        summary.sentence if summary.total else "there is nothing to back up: schedules deliver events alone", **numbers
    )


def _of_kind(kind: str, look: Look) -> Iterator[AssignmentFinding]:
    return (each for each in look.of(assignment_findings.of_the_doctor) if each.kind == kind)


def _cases(kind: str, look: Look) -> Iterator[Case]:
    for each in _of_kind(kind, look):
        yield Case(f"assignment:{each.pk}", f"{each.source}, {each.text}", each.since, each.source)


@condition(
    "no repository is open to accounts that the umask keeps out",
    "could be read by others: {}",
    f"chmod -R u=rwX,go= these files, or set BACKUPSCHED_UMASK (now {settings.UMASK:03o}) if others may read it",
)
def repository_modes(look: Look) -> Iterator[Case]:
    """Repositories that are open to accounts which `BACKUPSCHED_UMASK` keeps out."""
    known = {each.name: each for each in Repository.objects.filter(remote={}).order_by("name")}
    found = of_directories("open_to_others", {name: {"location": each.location} for name, each in known.items()})
    for name, why in found.items():
        yield Case(f"repository:{known[name].pk}", why)


@condition(
    "no backup looks wrong compared with those before it",
    "nothing is removed, since backups looked wrong: {}",
    f"look at those backups; if they are right, `{PROGRAM} sources accept SOURCE`",
)
def held_back(look: Look) -> Iterator[Case]:
    """Assignments with backups that an operator has to look at."""
    return _cases("held_back", look)


@condition(
    "no backup broke off twice in a row",
    "backups break off in the middle, since their sources go away: {}",
    "look at the network of each, and whether it falls asleep; until one succeeds they come behind all others",
)
def broken_off(look: Look) -> Iterator[Case]:
    """Assignments that were lost in mid-backup several times in a row."""
    lost = Assignment.objects.active().filter(losses__gt=1).select_related("source").order_by("-losses", "pk")
    for each in lost[:COUNT_TO]:
        yield Case(f"assignment:{each.pk}", f"{each.source} {each.loss.sentence}")


@condition(
    "nothing in a repository is known to be damaged",
    "files in repositories are damaged: {}",
    "check the disk; the next backup fetches again what the source still has (docs/upkeep.md, Checks), and "
    "for restic once the damaged file is moved away (the same, restic). A point that is gone is where its "
    "repository was before, or on a disk that has to be mounted",
)
def damage(look: Look) -> Iterator[Case]:
    """Files that checks found to differ from their manifest."""
    for each in _of_kind("damage", look):
        words = as_text([Damage(**damage) for damage in each.damage])
        yield Case(f"assignment:{each.pk}", f"{each.source}, {words}", each.since, each.source)


@condition(
    "every repository was in its place at the last look",
    "not in their place: {}",
    f"mount or correct them, or `{PROGRAM} repositories set NAME --location PLACE` where it was moved to",
    Severity.PROBLEM,
    lambda look: ("SELECT FROM sources_repository WHERE away_why <> ''", {}),
)
def places(look: Look) -> Iterator[Case]:
    """Repositories that a look has missed, with all that is stored in them."""
    for each in Repository.objects.exclude(away_why="").order_by("name"):
        since = f" since {moment(each.away_since)} UTC" if each.away_since else ""
        yield Case(f"place:{each.pk}", f"{each}{since}: {each.away_why}", each.away_since, str(each))


# A source that was ended since it filled its repository lacks room until it succeeds, or a tenth more is free.
SPACE = f"""
SELECT r.id, r.name, r.room_free < r.room_total * 0.1 OR lacks.source IS NOT NULL,
       round(100.0 * r.room_free / r.room_total, 1) || ' %% of it is free'
       || COALESCE(', and a backup needs more: ' || lacks.source, '')
  FROM sources_repository r
 CROSS JOIN LATERAL (
       SELECT min(s.name) AS source
       {assignment_findings.JOINED}
        WHERE p.repository_id = r.id AND a.room_lacked IS NOT NULL AND r.room_free < a.room_lacked * 1.1
          AND {assignment_findings.ACTIVE}) AS lacks
 WHERE r.room_total > 0 AND (lacks.source IS NOT NULL OR r.room_free < r.room_total * 0.125)
 ORDER BY r.name
"""


@condition(
    "no repository is nearly full",
    "nearly full: {}",
    "make room, or let policies keep less (docs/repositories.md)",
    alert_where=lambda look: (SPACE, {"now": look.now}),
)
def space(look: Look) -> Iterator[Case]:
    """Repositories with less than an eighth free, or too little for a backup. The subject is `nearly:…` if more than a
    tenth is free: such a finding ends no alert, and raises none.
    """
    for pk, name, is_full, text in rows(SPACE, now=look.now):
        yield Case(f"{'repository' if is_full else 'nearly'}:{pk}", f"{name}, {text}", None, name)


@condition(
    "all repositories are read and compared in time",
    "not read and compared in time: {}",
    f"look at `{PROGRAM} backlog list --kind check`: its window, its throttle, its last error; or raise `check_within`",
)
def checks(look: Look) -> Iterator[Case]:
    """Assignments whose policy wants everything read within a time that has passed since that was last done."""
    within = Value(timedelta(seconds=1)) * F("policy__check_within")
    wanted = ExpressionWrapper(Value(look.now) - within, output_field=DateTimeField())
    backed_up = Assignment.objects.active().filter(last_backup_at__isnull=False, policy__check_within__isnull=False)
    late = backed_up.annotate(since=Coalesce("check_round__ended_at", "inserted_at")).filter(since__lt=wanted)
    for pk, source, since in late.order_by("since").values_list("pk", "source__name", "since")[:COUNT_TO]:
        yield Case(f"assignment:{pk}", f"{source} since {since.date()}", since)


@condition(
    "the commands of policies before and after backups can be run here",
    "backups of policies fail on this host: {}",
    "write it there, on each host that has a worker (docs/hooks.md)",
)
def hooks(look: Look) -> Iterator[Case]:
    """Hooks that enabled policies name, and this host cannot run."""
    wanted = Policy.objects.filter(schedule__enabled=True).exclude(hook="").order_by("schedule__name")
    for pk, name, policy in wanted.values_list("pk", "hook", "schedule__name")[:COUNT_TO]:
        try:
            hook_of(name)
        except HookUnusable as error:
            yield Case(f"policy:{pk}", f"{policy}, {error}")


@condition(
    "no hook that is owed an `after` here is missing",
    "`after` commands that have not run since their backup: {}",
    "write the hook again on that host: its `after` is run within a minute (docs/hooks.md). Or do its work by "
    "hand, and delete the note",
)
def owed_hooks(look: Look) -> Iterator[Case]:
    """Hooks whose `after` is owed by workers on this host, but can no longer be run here."""
    for debt in sorted(debts.debts(), key=lambda each: each.assignment)[:COUNT_TO]:
        if note := debt.note():
            try:
                hook_of(note["hook"])
            except HookUnusable as error:
                source = Source.objects.filter(assignments=debt.assignment).first()
                name = source or f"assignment {debt.assignment}"
                yield Case(f"assignment:{debt.assignment}", f"{name} ({debt.file}), {error}")


@condition(
    "all copies have their points in time",
    "copies are late or damaged: {}",
    f"`{PROGRAM} sources copy` shows the last error of each; look at its window (copy_window), its rate, the second "
    "repository",
)
def copies(look: Look) -> Iterator[Case]:
    """Assignments with a point that has not been in their copy for longer than `copy_within`, or whose copy failed."""
    return _cases("copies", look)


@condition(
    "no drill has failed",
    "not proved restorable: {}",
    f"restore it by hand to see the damage; once it is repaired, `{PROGRAM} restores drill SOURCE` proves it "
    "(docs/upkeep.md, Drills)",
)
def drills(look: Look) -> Iterator[Case]:
    """Assignments whose last drill proved nothing."""
    return _cases("drills", look)


MISSED_AFTER = timedelta(days=2)


# There is no alert about a passphrase that was never printed.
NOT_BACKED_UP = """
SELECT 1 FROM sources_selfbackup WHERE ended_at IS NULL AND day < %(today)s
 UNION ALL
SELECT 1 FROM sources_selfbackup WHERE ended_at <= %(now)s AND day <= %(today)s HAVING max(ended_at) < %(missed_before)s
 UNION ALL
SELECT 1 FROM sources_selfbackup WHERE ended_at > %(now)s AND day <= %(today)s
"""


def _of_today(look: Look) -> dict[str, Any]:
    return {"now": look.now, "today": look.now.astimezone(UTC).date(), "missed_before": look.now - MISSED_AFTER}


@condition("the scheduler itself is backed up", alert_where=lambda look: (NOT_BACKED_UP, _of_today(look)))
def self_backup(look: Look) -> Iterator[Finding]:
    """A scheduler that could not come back on another machine."""
    if settings.SELF_BACKUP_TO == "none":
        yield ok("the scheduler's own backup is switched off by BACKUPSCHED_SELF_BACKUP_TO")
        return
    today = look.now.astimezone(UTC).date()
    ended = SelfBackup.objects.filter(ended_at__isnull=False, day__lte=today)
    done = ended.aggregate(day=Max("day"))["day"] or date.min
    missed = SelfBackup.objects.filter(ended_at=None, day__lt=today, day__gt=done).aggregate(day=Min("day"))["day"]
    last = ended.filter(ended_at__lte=look.now).aggregate(at=Max("ended_at"))["at"]
    by_a_clock_ahead = last is None and date.min < done < today - MISSED_AFTER
    if missed or by_a_clock_ahead or (last and look.now - last > MISSED_AFTER):
        since = f"since {moment(last)} UTC" if last else "ever"
        text = f"the scheduler itself has not been backed up {since}" + (
            f": the backup of {missed} is missing" if missed else ""
        )
        see = f"see `{PROGRAM} backlog list --kind self_backup` for the error"
        do = f"{see}; BACKUPSCHED_SELF_BACKUP_TO names the repository"
        yield replace(warning(text, do), subject="self_backup", since=last)
    elif last is None:
        yield ok("the scheduler's own backup has yet to run for the first time")
    elif not RecoveryKey.objects.exclude(printed_at=None).exists():
        text = "the scheduler is backed up each day, but cannot be restored: its passphrase was never printed"
        do = f"run `{PROGRAM} database passphrase`, and keep the paper away from this machine"
        yield replace(warning(text, do), subject="passphrase")
    else:
        yield ok(f"the scheduler itself was backed up at {moment(last)} UTC")


@condition(
    "every repository can be written",
    "cannot be written: {}",
    f"mount or correct them; `{PROGRAM} repositories test NAME` tries it again",
)
def repositories_usable(look: Look) -> Iterator[Case]:
    """Repositories that cannot be written now. A file is written there and removed again."""
    known = {each.name: each for each in Repository.objects.order_by("name")}
    found = not_writable_of(known.values())
    for name, why in found.items():
        yield Case(f"repository:{known[name].pk}", f"{name}: {why}")
