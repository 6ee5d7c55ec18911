"""What the clock runs: the periodic tasks of django-q2, and the sweeps of the progressive schedule."""

from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.backends.utils import CursorWrapper

from jobs import conf
from jobs.durations import span
from operations.doctor.asking import counted
from operations.doctor.finding import Finding, listed, ok, problem, warning
from operations.sweep_facts import TierFacts, tier_facts

OVERDUE = timedelta(minutes=10)
"""The scheduler of django-q2 looks every half minute; ten times that and more is no delay."""

COST = "backups and sweeps go on while a worker lives, since workers tick and sweep by themselves; only pruning waits"


def periodic_tasks(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether the tick, pruning and the sweeps are scheduled, on their grid, and the qcluster runs them."""
    if not apps.is_installed("django_q"):
        return ok("periodic_tasks", "django-q2 is not installed here; nothing is pruned by itself")
    from django_q.models import Schedule

    from operations.periodic_tasks import WANTED, matched

    found, _ = matched(Schedule.objects.order_by("pk"))
    missing = [wanted.name for wanted in WANTED if wanted.name not in found]
    changed = [
        f"{wanted.name} ({field} is {_describe(before)})"
        for wanted in WANTED
        if wanted.name in found
        for field, (before, _) in wanted.differences(found[wanted.name], now).items()
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


def sweeps(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether what waits for a sweep is swept when it should be, and all of it."""
    facts = tier_facts(now)
    waiting = max(one.waiting for one in facts)
    late = [one for one in facts if one.late_by > OVERDUE]
    full = [one for one in facts if one.left_some and one.waiting]
    numbers: dict[str, Any] = {
        "waiting": waiting,
        "late_seconds": {str(one.tier.max_age_days): one.late_by.total_seconds() for one in late},
        "left_some": [one.tier.max_age_days for one in full],
    }
    # left by a sweep that was full is not late: the sweep came
    if unswept := [one for one in late if one not in full]:
        said = [
            f"up to {_old(one)} old, {counted(one.waiting)}, since {span(one.late_by.total_seconds())}"
            for one in unswept
        ]
        return problem(
            "sweeps",
            f"records wait for sweeps that do not come: {listed(said)}",
            "start a worker, or manage.py qcluster after manage.py install_schedules: either of them sweeps. If both "
            "run, their logs say why not; manage.py process_backlog DAYS sweeps by hand",
            **numbers,
        )
    if full:
        said = [f"up to {_old(one)} old (took {one.swept:,})" for one in full]
        return warning(
            "sweeps",
            f"sweeps that reached their greatest number and left older records: {listed(said)}; those wait longer than "
            "their age says",
            f"raise JOBS['SWEEP_MAX_RECORDS'] (it is {conf.sweep_max_records():,}), or cancel what will never succeed: "
            "manage.py backlog cancel",
            **numbers,
        )
    return ok("sweeps", f"wait for a sweep, and are swept in time: {counted(waiting)}", **numbers)


def _old(one: TierFacts) -> str:
    return "1 day" if one.tier.max_age_days == 1 else f"{one.tier.max_age_days} days"


def _describe(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if isinstance(value, datetime) else repr(value)
