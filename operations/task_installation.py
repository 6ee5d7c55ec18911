"""The periodic tasks of django-q2, put right in its table."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django_q.models import Schedule as PeriodicTask

from jobs.clock import database_clock
from operations.periodic_tasks import WANTED, WantedTask, matched

# One after the other, or two installations at once would each make all rows.
ALONE = "SELECT pg_advisory_xact_lock(hashtext('install_schedules'), 0)"


@dataclass(frozen=True)
class TaskChange:
    """An action on one periodic task: `installed`, `changed`, `unchanged`; or `left`: it is not one of the wanted
    tasks.

    `changes`: field → [before, after].
    """

    name: str
    action: str
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@transaction.atomic
def install(*, dry_run: bool = False, now: datetime | None = None) -> list[TaskChange]:
    """Make the rows of django-q2 as wanted. Returns the step that was, or would be, taken for each."""
    with connection.cursor() as cursor:
        cursor.execute(ALONE)
    instant = now or database_clock()
    # locked: its scheduler saves whole rows
    found, others = matched(PeriodicTask.objects.select_for_update().order_by("pk"))
    steps = [_step(wanted, found.get(wanted.name), instant) for wanted in WANTED]
    if not dry_run:
        for step, wanted in zip(steps, WANTED, strict=True):
            _do(step, wanted, found.get(wanted.name), instant)
    return steps + [
        TaskChange(f"{task.name or 'without a name'}: {task.func}{task.args or '()'}", "left") for task in others
    ]


def _step(wanted: WantedTask, task: PeriodicTask | None, now: datetime) -> TaskChange:
    if task is None:
        return TaskChange(
            wanted.name, "installed", {"next_run": (None, wanted.first_run(now))} if wanted.on_grid else {}
        )
    changes = wanted.differences(task, now)
    return TaskChange(wanted.name, "changed" if changes else "unchanged", changes)


def _do(step: TaskChange, wanted: WantedTask, task: PeriodicTask | None, now: datetime) -> None:
    if task is None:
        PeriodicTask.objects.create(**wanted.fields(), next_run=wanted.first_run(now))
    elif step.changes:
        for name, (_, after) in step.changes.items():
            setattr(task, name, after)
        task.save(update_fields=list(step.changes))
