"""The periodic tasks of django-q2: installed, as they should be, and run."""

from datetime import datetime, timedelta

from django.apps import apps
from django.db.backends.utils import CursorWrapper

from jobs.doctor.finding import Finding, listed, ok, span, warning

OVERDUE = timedelta(minutes=10)
"""The scheduler of django-q2 looks every half minute; ten times that and more is no delay."""

COST = "backups go on, since workers tick by themselves; only pruning waits, and the look for what is due in mid-period"


def periodic_tasks(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether the tick and pruning are scheduled and the qcluster runs them."""
    if not apps.is_installed("django_q"):
        return ok("periodic_tasks", "django-q2 is not installed here; nothing is pruned by itself")
    from django_q.models import Schedule

    from jobs.management.commands.install_schedules import TASKS

    found = {task.name: task for task in Schedule.objects.filter(name__in=TASKS)}
    missing = [name for name in TASKS if name not in found]
    changed = [
        f"{name} ({key} is {getattr(found[name], key)!r})"
        for name, wanted in TASKS.items()
        if name in found
        for key, value in wanted.items()
        if getattr(found[name], key) != value
    ]
    late = {
        name: (now - task.next_run).total_seconds()
        for name, task in found.items()
        if task.next_run is not None and now - task.next_run > OVERDUE
    }
    numbers = {"missing": missing, "changed": changed, "overdue_seconds": late}
    if missing or changed:
        said = [f"{name} is not installed" for name in missing] + [f"{one} was changed" for one in changed]
        return warning("periodic_tasks", f"{listed(said)}; {COST}", "manage.py install_schedules", **numbers)
    if late:
        said = [f"{name} is overdue by {span(seconds)}" for name, seconds in late.items()]
        do = "is manage.py qcluster running? Start it, or start it again: a killed process of it may hold its queue"
        return warning("periodic_tasks", f"{listed(said)}; {COST}", do, **numbers)
    return ok("periodic_tasks", "installed, and run in time", **numbers)
