"""What runs by the clock: the tasks of django-q2, and the sweeps of the progressive schedule."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.backends.utils import CursorWrapper

from jobs import conf
from jobs.durations import span
from jobs.formatting import several
from jobs.models import Sweep
from jobs.prepared import execute
from jobs.retries.sweeps import slot
from jobs.retries.tiers import TIERS, Tier
from jobs.states import Status, WaitingFor
from operations.doctor.finding import COUNT_TO, Answer, condition, counted, listed, ok, problem, warning

OVERDUE = timedelta(minutes=10)
"""The scheduler of django-q2 looks every half minute; ten times that and more is no delay."""


@condition("")
def periodic_tasks(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether the tick, pruning and the sweeps are scheduled, on their grid, and the qcluster runs them."""
    if not apps.is_installed("django_q"):
        return ok("django-q2 is not installed here; nothing is pruned by itself")
    from django_q.models import Schedule

    from operations.periodic_tasks import WANTED, matched

    found, _ = matched(Schedule.objects.order_by("pk"))
    missing = [wanted.name for wanted in WANTED if wanted.name not in found]
    changed = [
        f"{wanted.name} ({field} is {f'{is_:%Y-%m-%d %H:%M:%S} UTC' if isinstance(is_, datetime) else repr(is_)})"
        for wanted in WANTED
        if wanted.name in found
        for field, (is_, _) in wanted.differences(found[wanted.name], now).items()
    ]
    behind = {name: now - task.next_run for name, task in found.items() if task.next_run}
    late = {name: delay.total_seconds() for name, delay in behind.items() if delay > OVERDUE}
    numbers = {"missing": missing, "changed": changed, "overdue_seconds": late}
    cost = (
        "backups and sweeps go on while a worker lives, since workers tick and sweep by themselves; only pruning waits"
    )
    if wrong := [f"{name} is not installed" for name in missing] + [f"{each} was changed" for each in changed]:
        return warning(f"{listed(wrong)}; {cost}", f"{conf.PROGRAM} install_schedules", **numbers)
    if late:
        wrong = [f"{name} is overdue by {span(seconds)}" for name, seconds in late.items()]
        do = f"is {conf.PROGRAM} qcluster running? Start it again: a killed process of it may hold its queue"
        return warning(f"{listed(wrong)}; {cost}", do, **numbers)
    return ok("installed, and run in time", **numbers)


# Served by `backlog_swept`.
WAITING = f"""
SELECT count(*), min(COALESCE(last_failure_at, inserted_at))
  FROM (SELECT last_failure_at, inserted_at
          FROM jobs_backlogrecord
         WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.SWEEP}
           AND inserted_at >= %(since)s::timestamptz
         ORDER BY inserted_at DESC
         LIMIT {COUNT_TO + 1}) AS waiting
"""


@dataclass(frozen=True)
class Standing:
    """One tier at one instant: its last sweep, if there was one; `waiting`: how many records wait for a sweep and are
    young enough for it, at most COUNT_TO + 1; `late_by`: how many seconds ago a sweep should have taken one, at least.
    """

    tier: Tier
    last: Sweep | None
    waiting: int
    late_by: float

    @property
    def age(self) -> str:
        return f"up to {several(self.tier.max_age_days, 'day')} old"


def _standing(tier: Tier, last: Sweep | None, now: datetime) -> Standing:
    waiting, since = execute(WAITING, {"since": now - timedelta(days=tier.max_age_days)}).fetchall()[0]
    if since is None:
        return Standing(tier, last, waiting, 0.0)
    # it is owed in the slot after the last one, if something waited then
    owed = slot(tier, max(since, last.swept_at) if last else since) + timedelta(seconds=tier.every)
    return Standing(tier, last, waiting, max(0.0, (now - owed).total_seconds()))


@condition("")
def sweeps(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether what waits for a sweep is swept when it should be, and all of it."""
    rows = {row.max_age_days: row for row in Sweep.objects.all()}
    facts = [_standing(tier, rows.get(tier.max_age_days), now) for tier in TIERS]
    waiting = max(one.waiting for one in facts)
    late = [one for one in facts if one.late_by > OVERDUE.total_seconds()]
    full = [one for one in facts if one.last and one.last.left_some and one.waiting]
    numbers: dict[str, Any] = {
        "waiting": waiting,
        "late_seconds": {str(one.tier.max_age_days): one.late_by for one in late},
        "left_some": [one.tier.max_age_days for one in full],
    }
    # left by a sweep that was full is not late: the sweep came
    if unswept := [one for one in late if one not in full]:
        wrong = [f"{one.age}, {counted(one.waiting)}, since {span(one.late_by)}" for one in unswept]
        return problem(
            f"records wait for sweeps that do not come: {listed(wrong)}",
            f"start a worker, or {conf.PROGRAM} qcluster after {conf.PROGRAM} install_schedules: either sweeps. If "
            f"both run, their logs say why not; {conf.PROGRAM} process_backlog DAYS sweeps by hand",
            **numbers,
        )
    if full:
        wrong = [f"{one.age} (took {one.last.swept:,})" for one in full if one.last]
        return warning(
            f"sweeps that reached their greatest number and left older records: {listed(wrong)}; those wait longer "
            "than their age says",
            f"raise JOBS['SWEEP_MAX_RECORDS'] (it is {conf.sweep_max_records():,}), or cancel what will never succeed: "
            f"{conf.PROGRAM} backlog cancel",
            **numbers,
        )
    return ok(f"wait for a sweep, and are swept in time: {counted(waiting)}", **numbers)
