import json
from argparse import ArgumentParser
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.utils import Error
from django_q.models import Schedule as PeriodicTask

from declarations.surfaces.commands.base import TerminalCommand, unanswered
from external.formatting import moment
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.periodic_tasks import WANTED, Wanted, matched

# One after the other, or two installations at once would each make all rows.
ALONE = "SELECT pg_advisory_xact_lock(hashtext('install_schedules'), 0)"


@dataclass(frozen=True)
class Step:
    """What is done about one periodic task: `installed`, `changed`, `unchanged`; or `left`: it is none of ours.

    `changes`: field → [before, after].
    """

    name: str
    action: str
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)


class Command(TerminalCommand):
    help = (
        f"Install the periodic tasks of django-q2 (`{PROGRAM} qcluster`): the tick, every minute; pruning, every "
        "hour; the six sweeps of the progressive schedule, on their grid; digests of alerts, hourly. It shows what it "
        "installs, changes "
        "(field: before → after) and leaves. Run it again after each upgrade: what is right stays as it is. What a "
        "person changed in one of these rows it puts back, their times too, so do not tune them there; rows that a "
        "person added are left alone. Exit codes: 0, 2 when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, and change nothing")
        parser.add_argument("--json", action="store_true", help="print {dry_run, tasks: [{name, action, changes}]}")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            steps = install(dry_run=options["dry_run"])
        except Error as error:
            raise unanswered(error, "nothing was installed: ") from error
        if options["json"]:
            facts = {"dry_run": options["dry_run"], "tasks": [asdict(step) for step in steps]}
            self.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False, default=str))
            return
        for step in steps:
            self.stdout.write(f"{step.action:<9}  {step.name}")
            for name, (before, after) in step.changes.items():
                self.stdout.write(f"             {name}: {_describe(before)} → {_describe(after)}")
        if options["dry_run"]:
            self.stdout.write("Nothing was changed (--dry-run).")


@transaction.atomic
def install(*, dry_run: bool = False, now: datetime | None = None) -> list[Step]:
    """Make the rows of django-q2 what they should be. Returns what was, or would be, done about each."""
    with connection.cursor() as cursor:
        cursor.execute(ALONE)
    instant = now or database_clock()
    # locked: its scheduler saves whole rows
    found, others = matched(PeriodicTask.objects.select_for_update().order_by("pk"))
    steps = [_step(wanted, found.get(wanted.name), instant) for wanted in WANTED]
    if not dry_run:
        for step, wanted in zip(steps, WANTED, strict=True):
            _do(step, wanted, found.get(wanted.name), instant)
    return steps + [Step(f"{task.name or 'without a name'}: {task.func}{task.args or '()'}", "left") for task in others]


def _step(wanted: Wanted, task: PeriodicTask | None, now: datetime) -> Step:
    if task is None:
        return Step(wanted.name, "installed", {"next_run": (None, wanted.first_run(now))} if wanted.on_grid else {})
    changes = wanted.differences(task, now)
    return Step(wanted.name, "changed" if changes else "unchanged", changes)


def _do(step: Step, wanted: Wanted, task: PeriodicTask | None, now: datetime) -> None:
    if task is None:
        PeriodicTask.objects.create(**wanted.fields(), next_run=wanted.first_run(now))
    elif step.changes:
        for name, (_, after) in step.changes.items():
            setattr(task, name, after)
        task.save(update_fields=list(step.changes))


def _describe(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{moment(value)} UTC"
    return "none" if value is None else str(value)
