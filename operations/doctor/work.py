"""The work: the workers and their leases, what no step of the tick can deal with, and what runs by the clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.backends.utils import CursorWrapper

from declarations.surfaces.finding import (
    COUNT_TO,
    Answer,
    Severity,
    condition,
    counted,
    listed,
    ok,
    problem,
    rows,
    warning,
)
from external.durations import span
from external.formatting import first_line, several
from external.sockets import MOST, RESERVED
from jobs import conf
from jobs.closing import LOOK_AGAIN_AFTER, SET_ASIDE
from jobs.models import Sweep, Worker
from jobs.prepared import execute
from jobs.retries.tiers import TIERS, Tier
from jobs.states import Status, WaitingFor
from jobs.sweeps import slot
from schedules.cron import Period
from schedules.models import Overlap

LATELY = timedelta(minutes=15)
"""A worker writes at most once a minute that it ran out of sockets."""
OVERDUE = timedelta(minutes=10)
"""The scheduler of django-q2 looks every half minute; ten times that and more is no delay."""


@condition(
    "no worker ran out of sockets to ask sources with",
    "as many sources that do not answer are asked at once as file descriptors allow, others wait: {}",
    f"allow the workers {MOST + RESERVED} open files (LimitNOFILE= of their service, ulimit -Hn), or start another "
    "worker",
)
def sockets(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether workers ask as many sources at once as they would, or their file descriptors are used up."""
    alive = Worker.alive(now).order_by("pk")
    bound = [worker for worker in alive if worker.out_of_sockets_at and worker.out_of_sockets_at > now - LATELY]
    wrong = [f"{worker.name} ({worker.sockets} sockets)" for worker in bound]
    return wrong, {"sockets": {worker.name: worker.sockets for worker in alive}}


# Served by `backlog_lease_expires`. Nothing is rescued for one lease after the start of the server.
NOT_RESCUED = f"""
SELECT count(*), EXTRACT(EPOCH FROM %(now)s - min(lease_expires_at))::float8,
       (array_agg(id ORDER BY lease_expires_at))[:5]
  FROM (SELECT id, lease_expires_at
          FROM jobs_backlogrecord
         WHERE status = {Status.RUNNING} AND lease_expires_at <= %(before)s AND pg_postmaster_start_time() <= %(before)s
         ORDER BY lease_expires_at
         LIMIT {COUNT_TO + 1}) AS expired
"""


@condition(
    "no expired lease waits for its rescue",
    "leases that expired and are not rescued: {}",
    "start a worker, it rescues them after one lease; if one lives, its log says why it cannot (cannot settle)",
    severity=Severity.PROBLEM,
)
def expired_leases(cursor: CursorWrapper, now: datetime) -> Answer:
    """Leases that expired two leases ago, and that no worker rescued. A worker that ticks rescues after one."""
    before = now - timedelta(seconds=2 * conf.lease_seconds())
    count, oldest, records = rows(cursor, NOT_RESCUED, now=now, before=before)[0]
    if not count:
        return [], {"expired": 0}
    wrong = f"{counted(count)}, the oldest {span(oldest)} ago (record {', '.join(map(str, records))})"
    return [wrong], {"expired": count, "oldest_seconds": oldest, "records": records}


# By `backlog_waiting_until`: it is looked at again within the hour.
RECORDS = f"""
SELECT id, last_error
  FROM (SELECT id, last_error, waiting_for, closes_at
          FROM jobs_backlogrecord
         WHERE status = {Status.WAITING} AND run_after <= %(now)s + %(again)s
         ORDER BY run_after
         LIMIT {COUNT_TO}) AS soon
 WHERE waiting_for = {WaitingFor.WINDOW} AND closes_at <= %(now)s AND last_error LIKE %(pattern)s
"""

SCHEDULES = (
    "SELECT o.name, s.cron, o.zone FROM schedules_schedule s JOIN jobs_origin o ON o.id = s.origin_id "
    f"WHERE s.enabled ORDER BY o.id LIMIT {COUNT_TO}"
)

# By `trigger_unfinished`.
TRIGGERS = f"""
SELECT o.name, t.trigger_at
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
  JOIN jobs_origin o ON o.id = t.schedule_id
 WHERE t.finished_at IS NULL AND t.emitted_at IS NULL AND t.events = 0 AND s.overlap = '{Overlap.ALLOW}'
   AND t.seen_at < %(now)s - interval '10 minutes'
 ORDER BY t.trigger_at
 LIMIT 100
"""


@condition(
    "every record, schedule and trigger can be read",
    "set aside, so that all others go on: {}",
    "correct or cancel what is named; it is looked at again within a minute, a record within an hour. Where nothing is "
    "wrong with it, the log of the workers has the error: is the same version installed on all hosts?",
    severity=Severity.PROBLEM,
)
def set_aside(cursor: CursorWrapper, now: datetime) -> Answer:
    """Records, schedules and triggers that no step of the tick can deal with: they hold up nothing, and wait."""
    found = rows(cursor, RECORDS, now=now, again=LOOK_AGAIN_AFTER, pattern=f"{SET_ASIDE}%")
    records = {int(record): str(error).removeprefix(SET_ASIDE) for record, error in found}
    unreadable = ((name, _unreadable(cron, zone)) for name, cron, zone in rows(cursor, SCHEDULES))
    schedules = {str(name): why for name, why in unreadable if why}
    triggers = [f"{name} of {at:%Y-%m-%d %H:%M} UTC" for name, at in rows(cursor, TRIGGERS, now=now)]
    wrong = [f"record {record}: {first_line(error)}" for record, error in records.items()]
    wrong += [f"schedule {name} emits nothing: {why}" for name, why in schedules.items()]
    wrong += [f"the trigger {trigger} cannot be emitted" for trigger in triggers]
    numbers = {"records": list(records), "schedules": list(schedules), "triggers": triggers} if wrong else {}
    return wrong, numbers


def _unreadable(cron: str, zone: str) -> str:
    try:
        Period(cron, zone).check()
    except ValueError as error:
        return str(error)
    return ""


@condition("")
def periodic_tasks(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether the tick, pruning and the sweeps are scheduled, on their grid, and the qcluster runs them."""
    if not apps.is_installed("django_q"):
        return ok("django-q2 is not installed here; nothing is pruned by itself")
    from django_q.models import OrmQ, Schedule

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
    queued = OrmQ.objects.filter(lock__lt=now - OVERDUE).count()
    numbers = {"missing": missing, "changed": changed, "overdue_seconds": late, "queued": queued}
    cost = (
        "backups and sweeps go on while a worker lives, since workers tick and sweep by themselves; only pruning and "
        "digests wait"
    )
    if wrong := [f"{name} is not installed" for name in missing] + [f"{each} was changed" for each in changed]:
        return warning(f"{listed(wrong)}; {cost}", f"`{conf.PROGRAM} install_schedules`", **numbers)
    if late:
        wrong = [f"{name} is overdue by {span(seconds)}" for name, seconds in late.items()]
        do = f"is `{conf.PROGRAM} qcluster` running? Start it again: a killed process of it may hold its queue"
        return warning(f"{listed(wrong)}; {cost}", do, **numbers)
    if queued:
        what = f"{several(queued, 'task')} in the qcluster's queue {'is' if queued == 1 else 'are'} not taken"
        do = f"end `{conf.PROGRAM} qcluster` and start it again: it schedules, and does not work"
        return warning(f"{what}; {cost}", do, **numbers)
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
            f"start a worker, or `{conf.PROGRAM} qcluster` after `{conf.PROGRAM} install_schedules`: either sweeps. If "
            f"both run, their logs say why not; `{conf.PROGRAM} process_backlog DAYS` sweeps by hand",
            **numbers,
        )
    if full:
        wrong = [f"{one.age} (took {one.last.swept:,})" for one in full if one.last]
        return warning(
            f"sweeps that reached their greatest number and left older records: {listed(wrong)}; those wait longer "
            "than their age says",
            f"raise JOBS['SWEEP_MAX_RECORDS'] (it is {conf.sweep_max_records():,}), or cancel what will never succeed: "
            f"`{conf.PROGRAM} backlog cancel ID`",
            **numbers,
        )
    return ok(f"wait for a sweep, and are swept in time: {counted(waiting)}", **numbers)
