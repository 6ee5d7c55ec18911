"""What `manage.py doctor` looks at for this app."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.backends.utils import CursorWrapper
from django.db.models import DateTimeField, ExpressionWrapper, F, Max, Value
from django.db.models.functions import Coalesce

from backups.hooks import debts
from backups.repository_state import not_writable_of, of_directories
from backups.upkeep.checks import in_words
from declarations.surfaces.finding import COUNT_TO, Answer, Severity, condition, ok, warning
from fleet import status
from jobs.conf import PROGRAM
from sources.declarations.hook_file import HookUnusable, hook_of
from sources.models import Assignment, CheckRound, Policy, RecoveryKey, Repository, SelfBackup
from sources.protection import copy_status
from storage.points.checking import Damage


@condition("")
def protection(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether each source has a backup that is recent enough, and is backed up without failures."""
    summary, wrong, do = status.verdict(now)
    numbers = {word.value: number for word, number in summary.by_status.items()}
    if wrong:
        return warning(wrong, do, **numbers)
    return ok(
        summary.sentence if summary.total else "there is nothing to back up: schedules deliver events alone", **numbers
    )


@condition(
    "no repository is open to accounts that the umask keeps out",
    "could be read by others: {}",
    f"chmod -R u=rwX,go= what is named, or set BACKUPSCHED_UMASK (now {settings.UMASK:03o}) if others may read it",
)
def repository_modes(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether copies are open to accounts of the host that `BACKUPSCHED_UMASK` closes them to."""
    rows = Repository.objects.filter(remote={}).order_by("name")
    found = of_directories("open_to_others", {each.name: {"location": each.location} for each in rows})
    return list(found.values()), {"open": list(found)}


@condition(
    "no backup looks wrong beside those before it",
    "nothing is removed of what looked wrong: {}",
    f"look at those backups; if they are meant so, `{PROGRAM} held_back accept SOURCE`",
)
def held_back(cursor: CursorWrapper, now: datetime) -> Answer:
    """Assignments whose backups a person has to look at."""
    held = Assignment.objects.filter(held_back_since__isnull=False).order_by("held_back_since")
    rows = held.values_list("source__name", "held_back_why")[:COUNT_TO]
    return [f"{source}, {why}" for source, why in rows], {"held_back": [source for source, _ in rows]}


@condition(
    "no backup broke off twice in a row",
    "backups break off in the middle, since their sources go away: {}",
    "look at the network of each, and whether it falls asleep; until one succeeds they come behind all others",
)
def broken_off(cursor: CursorWrapper, now: datetime) -> Answer:
    """Assignments that were lost in mid-backup several times in a row."""
    lost = Assignment.objects.active().filter(losses__gt=1).select_related("source").order_by("-losses", "pk")
    rows = list(lost[:COUNT_TO])
    return [f"{each.source} {each.loss.in_words}" for each in rows], {"broken_off": [each.source.name for each in rows]}


@condition(
    "nothing in a repository is known to be damaged",
    "files in repositories are damaged: {}",
    "look at the disk; what the source still has is fetched again by its next backup (docs/upkeep.md, Checks), and "
    "for restic once the damaged file is moved away (the same, restic). A point that is gone lies where its repository "
    "was before, or on a disk that is to be mounted",
)
def damage(cursor: CursorWrapper, now: datetime) -> Answer:
    """What checks found that is not as its manifest says."""
    rows = CheckRound.objects.exclude(damage=[]).order_by("pk").values_list("assignment__source__name", "damage")
    found = [f"{source}, {in_words([Damage(**each) for each in damage])}" for source, damage in rows[:COUNT_TO]]
    return found, {"damaged": [source for source, _ in rows[:COUNT_TO]]}


@condition(
    "every repository was where it is said to be when it was last looked at",
    "not where they are said to be: {}",
    f"mount or correct what is named, or `{PROGRAM} repositories set NAME --location PLACE` where it was moved to",
    Severity.PROBLEM,
)
def places(cursor: CursorWrapper, now: datetime) -> Answer:
    """Repositories that a look has missed, with all that lies in them."""
    rows = list(Repository.objects.exclude(away_why="").order_by("name").values_list("name", "away_since", "away_why"))
    found = [f"{name}{f' since {since:%Y-%m-%d %H:%M} UTC' if since else ''}: {why}" for name, since, why in rows]
    return found, {"away": [name for name, *_ in rows]}


@condition(
    "all repositories are read and compared in time",
    "not read and compared in time: {}",
    f"look at `{PROGRAM} backlog list --kind check`: its window, its throttle, its last error; or raise `check_within`",
)
def checks(cursor: CursorWrapper, now: datetime) -> Answer:
    """Assignments whose policy wants all of it read in a time that has passed since that was last done."""
    within = Value(timedelta(seconds=1)) * F("policy__check_within")
    wanted = ExpressionWrapper(Value(now) - within, output_field=DateTimeField())
    backed_up = Assignment.objects.active().filter(last_backup_at__isnull=False, policy__check_within__isnull=False)
    late = backed_up.annotate(since=Coalesce("check_round__ended_at", "inserted_at")).filter(since__lt=wanted)
    rows = late.order_by("since").values_list("source__name", "since")[:COUNT_TO]
    found = [f"{source} since {since:%Y-%m-%d}" for source, since in rows]
    return found, {"late": found}


@condition(
    "what policies have run before and after backups can be run here",
    "backups of policies fail on this host: {}",
    "write it there, on each host that has a worker (docs/hooks.md)",
)
def hooks(cursor: CursorWrapper, now: datetime) -> Answer:
    """Hooks that enabled policies name, and this host cannot run."""
    wanted = Policy.objects.filter(schedule__enabled=True).exclude(hook="").order_by("schedule__name")
    found = {}
    for name, policy in wanted.values_list("hook", "schedule__name")[:COUNT_TO]:
        try:
            hook_of(name)
        except HookUnusable as error:
            found[policy] = str(error)
    return [f"{policy}, {why}" for policy, why in found.items()], {"policies": list(found)}


@condition(
    "no hook that is owed an `after` here is missing",
    "what was begun before a backup was never ended: {}",
    "write the hook there again: its `after` is run within a minute (docs/hooks.md). Or do by hand what it does, and "
    "delete the note",
)
def owed_hooks(cursor: CursorWrapper, now: datetime) -> Answer:
    """What workers of this host owe of hooks that cannot be run here any more."""
    found = {}
    for debt in sorted(debts.debts(), key=lambda each: each.assignment)[:COUNT_TO]:
        if note := debt.note():
            try:
                hook_of(note["hook"])
            except HookUnusable as error:
                found[debt] = str(error)
    rows = Assignment.objects.filter(pk__in=[debt.assignment for debt in found])
    sources = dict(rows.values_list("pk", "source__name"))
    names = {debt: sources.get(debt.assignment, f"assignment {debt.assignment}") for debt in found}
    return [f"{names[debt]} ({debt.file}), {why}" for debt, why in found.items()], {"owed": list(names.values())}


@condition(
    "all copies have their points in time",
    "points have not come into their copies in time: {}",
    f"`{PROGRAM} copy` shows the last error of each; look at its window (copy_window), its rate, the second repository",
)
def copies(cursor: CursorWrapper, now: datetime) -> Answer:
    """Assignments with a point that has not been in their copy for longer than `copy_within`."""
    rows = copy_status.overdue(now).order_by("to_copy_since").values_list("source__name", "to_copy_since")[:COUNT_TO]
    found = [f"{source} since {since:%Y-%m-%d %H:%M} UTC" for source, since in rows]
    return found, {"late": found}


@condition(
    "no drill has failed",
    "not proved restorable: {}",
    f"restore it by hand to see what comes back; once mended, `{PROGRAM} drill SOURCE` proves it (docs/upkeep.md, "
    "Drills)",
)
def drills(cursor: CursorWrapper, now: datetime) -> Answer:
    """Assignments whose last drill proved nothing."""
    failed = Assignment.objects.active().exclude(drill_error="").order_by("pk")
    rows = failed.values_list("source__name", "drill_error")[:COUNT_TO]
    return [f"{source}, {why}" for source, why in rows], {"not_proved": [source for source, _ in rows]}


MISSED_AFTER = timedelta(days=2)


@condition("")
def self_backup(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether the scheduler could come back on another machine."""
    if settings.SELF_BACKUP_TO == "none":
        return ok("the scheduler's own backup is switched off by BACKUPSCHED_SELF_BACKUP_TO")
    last = SelfBackup.objects.filter(ended_at__lte=now).aggregate(at=Max("ended_at"))["at"]
    if last is None and not SelfBackup.objects.filter(day__lt=now - MISSED_AFTER).exists():
        return ok("the scheduler's own backup has yet to run for the first time")
    if last is None or now - last > MISSED_AFTER:
        since = f"since {last:%Y-%m-%d %H:%M} UTC" if last else "ever"
        see = f"see `{PROGRAM} backlog list --kind self_backup` for the error"
        do = f"{see}; BACKUPSCHED_SELF_BACKUP_TO names the repository"
        return warning(f"the scheduler itself has not been backed up {since}", do, last=last and last.isoformat())
    if not RecoveryKey.objects.exclude(printed_at=None).exists():
        text = "the scheduler is backed up each day, and cannot be restored: its passphrase was never printed"
        return warning(text, f"run `{PROGRAM} self_backup passphrase`, and keep the paper away from this machine")
    return ok(f"the scheduler itself was backed up at {last:%Y-%m-%d %H:%M} UTC", last=last.isoformat())


@condition(
    "every repository can be written",
    "cannot be written: {}",
    f"mount or correct what is named; `{PROGRAM} repositories test NAME` tries it again",
)
def repositories_usable(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether each repository can be written now. A file is tried there; nothing of it stays."""
    found = not_writable_of(Repository.objects.order_by("name"))
    return [f"{name}: {why}" for name, why in found.items()], {"lost": list(found)}
