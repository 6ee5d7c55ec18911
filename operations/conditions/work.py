"""The work: workers and their leases, and periodic tasks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.models import Max

from external.durations import span
from external.formatting import moment, several
from external.sockets import MOST, RESERVED
from jobs import conf
from jobs.models import Sweep, Worker
from jobs.prepared_statements import execute
from jobs.retries.tiers import TIERS, Tier
from jobs.states import Status, WaitingFor
from jobs.sweeps import slot
from operations.finding import (
    COUNT_TO,
    Case,
    Finding,
    Look,
    Severity,
    condition,
    counted,
    ok,
    problem,
    rows,
    warning,
)

LATELY = timedelta(minutes=15)
"""A worker writes at most once a minute that it ran out of sockets."""
OVERDUE = timedelta(minutes=10)
"""The scheduler of django-q2 looks every half minute; ten times that and more is not an ordinary delay."""


@condition(
    "no worker ran out of sockets to ask sources with",
    "as many sources that do not answer are asked at once as file descriptors allow, others wait: {}",
    f"allow the workers {MOST + RESERVED} open files (LimitNOFILE= of their service, ulimit -Hn), or start another "
    "worker",
)
def sockets(look: Look) -> Iterator[Case]:
    """Workers whose file descriptors were used up, so that they asked fewer sources at once."""
    bound = Worker.alive(look.now).filter(out_of_sockets_at__gt=look.now - LATELY).order_by("pk")
    for worker in bound:
        yield Case(f"worker:{worker.pk}", f"{worker.name} ({worker.sockets} sockets)", worker.out_of_sockets_at)


# Served by `backlog_lease_expires`. Nothing is rescued for one lease after the start of the server.
NOT_RESCUED = f"""
SELECT count(*), min(lease_expires_at),
       (array_agg(id ORDER BY lease_expires_at))[:5]
  FROM (SELECT id, lease_expires_at
          FROM jobs_backlogrecord
         WHERE status = {Status.RUNNING} AND lease_expires_at <= %(before)s
           AND NOT pg_postmaster_start_time() BETWEEN %(before)s AND %(now)s
         ORDER BY lease_expires_at
         LIMIT {COUNT_TO + 1}) AS expired
HAVING count(*) > 0
"""


def _rescued_by(look: Look) -> dict[str, Any]:
    return {"before": look.now - timedelta(seconds=2 * conf.lease_seconds()), "now": look.now}


@condition(
    "no expired lease waits for its rescue",
    "leases that expired and are not rescued: {}",
    "start a worker: it rescues them after one lease; if one is alive, its log has the reason (cannot settle)",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (NOT_RESCUED, _rescued_by(look)),
)
def expired_leases(look: Look) -> Iterator[Case]:
    """Leases that expired two leases ago, and that no worker rescued. A worker that ticks rescues after one."""
    for count, oldest, records in rows(NOT_RESCUED, **_rescued_by(look)):
        ago = span((look.now - oldest).total_seconds())
        yield Case("leases", f"{counted(count)}, the oldest {ago} ago (record {', '.join(map(str, records))})", oldest)


# Served by `backlog_lease_expires`, the last row.
ENDLESS_LEASE = f"""
SELECT id, lease_expires_at::text
  FROM (SELECT id, lease_expires_at FROM jobs_backlogrecord
         WHERE status = {Status.RUNNING} ORDER BY lease_expires_at DESC LIMIT 1) AS last
 WHERE lease_expires_at > %(latest)s
"""


@condition(
    "no record that runs is leased for longer than a lease",
    "{}",
    "a clock was ahead, or the row was written by hand: cancel the record, and retry it",
    severity=Severity.PROBLEM,
    alert_where=lambda look: (ENDLESS_LEASE, _longest_lease(look)),
)
def endless_leases(look: Look) -> Iterator[Case]:
    """The lease that ends last, where no worker can have taken it for as long."""
    for pk, until in rows(ENDLESS_LEASE, **_longest_lease(look)):
        yield Case(f"record:{pk}", f"record {pk} is leased until {until}")


def _longest_lease(look: Look) -> dict[str, Any]:
    return {"latest": look.now + timedelta(seconds=2 * conf.lease_seconds())}


TICK_LATE = timedelta(seconds=110)
"""qcluster ticks each minute, and up to half a minute later than it should."""

NO_TICK = """
SELECT WHERE NOT EXISTS (
       SELECT FROM django_q_task WHERE success AND func = 'jobs.periodic.tick' AND stopped >= %(since)s)
"""


@condition(
    "qcluster ticks",
    "{}: nothing is pruned, and no digest is sent",
    f"start `{conf.PROGRAM} qcluster`, or look at its log",
    alert_where=lambda look: (NO_TICK, {"since": look.now - TICK_LATE}),
)
def ticks(look: Look) -> Iterator[Case]:
    """A qcluster that has not run its tick in the last two minutes."""
    if look.late_before is None or not apps.is_installed("django_q"):
        return
    from django_q.models import Success

    last = Success.objects.filter(func="jobs.periodic.tick").aggregate(at=Max("stopped"))["at"]
    if last is None or last < look.now - TICK_LATE:
        at = f"{moment(last)} UTC" if last else "never"
        yield Case("qcluster", f"the periodic tasks do not run: the last tick of qcluster was {at}", last)


# Its other problems are for the doctor alone.
GONE_OR_STANDING = """
SELECT 1
  FROM unnest(%(names)s::text[], %(seconds)s::int[], %(on_grid)s::boolean[]) AS wanted(name, seconds, on_grid)
  LEFT JOIN django_q_schedule task ON task.name = wanted.name
 WHERE task.id IS NULL OR task.repeats = 0 OR task.next_run IS NULL
    OR task.next_run > %(now)s::timestamptz + %(skew)s + wanted.seconds * interval '1 second'
    OR (wanted.on_grid AND extract(epoch FROM task.next_run) %% wanted.seconds <> 0)
"""


def _wanted(look: Look) -> dict[str, Any]:
    from operations.periodic_tasks import SKEW, WANTED

    return {
        "now": look.now,
        "skew": SKEW,
        "names": [each.name for each in WANTED],
        "seconds": [each.every for each in WANTED],
        "on_grid": [each.on_grid for each in WANTED],
    }


@condition(
    "the periodic tasks are installed, and run in time",
    "{}; backups and sweeps continue while a worker is alive, since workers tick and sweep by themselves; only "
    "pruning, digests and the list of backups at risk wait",
    alert_where=lambda look: (GONE_OR_STANDING, _wanted(look)),
)
def periodic_tasks(look: Look) -> Iterator[Finding]:
    """Periodic tasks that are not scheduled, not on their grid, or that the qcluster does not run."""
    if not apps.is_installed("django_q"):
        yield ok("django-q2 is not installed here; nothing is pruned automatically")
        return
    from django_q.models import OrmQ, Schedule

    from operations.periodic_tasks import WANTED, matched

    found, _ = matched(Schedule.objects.order_by("pk"))
    install = f"`{conf.PROGRAM} qcluster install`"
    for wanted in WANTED:
        name, task = wanted.name, found.get(wanted.name)
        if task is None:
            yield replace(warning(f"{name} is not installed", install), subject=f"{'gone' if found else 'none'}:{name}")
            continue
        for field, (is_, _) in wanted.differences(task, look.now).items():
            value = f"{moment(is_)} UTC" if isinstance(is_, datetime) else repr(is_)
            text, stands = (
                f"{name} was changed ({field} is {value})",
                field == "next_run" or (field, is_) == ("repeats", 0),
            )
            yield replace(warning(text, install), subject=f"{'stands' if stands else 'changed'}:{name}")
        if task.next_run and (late := look.now - task.next_run) > OVERDUE:
            do = f"is `{conf.PROGRAM} qcluster` running? Start it again: one of its killed processes may hold its queue"
            text = f"{name} is overdue by {span(late.total_seconds())}"
            yield replace(warning(text, do), subject=f"late:{name}", since=task.next_run)
    if queued := OrmQ.objects.filter(lock__lt=look.now - OVERDUE).count():
        what = f"{several(queued, 'task')} in the qcluster's queue {'is' if queued == 1 else 'are'} not taken"
        yield warning(what, f"end `{conf.PROGRAM} qcluster` and start it again: it schedules, and does not work")


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
class TierStanding:
    """One tier at one instant: its last sweep, if there was one; `waiting`: the number of records that wait for a sweep
    and are young enough for it, at most COUNT_TO + 1; `late_by`: how many seconds ago a sweep should have taken one, at
    least.
    """

    tier: Tier
    last: Sweep | None
    waiting: int
    late_by: float

    @property
    def age(self) -> str:
        return f"up to {several(self.tier.max_age_days, 'day')} old"


def _standing(tier: Tier, last: Sweep | None, now: datetime) -> TierStanding:
    waiting, since = execute(WAITING, {"since": now - timedelta(days=tier.max_age_days)}).fetchall()[0]
    if since is None:
        return TierStanding(tier, last, waiting, 0.0)
    # it is owed in the slot after the last one, if something waited then
    owed = slot(tier, max(since, last.swept_at) if last else since) + timedelta(seconds=tier.every)
    return TierStanding(tier, last, waiting, max(0.0, (now - owed).total_seconds()))


@condition()
def sweeps(look: Look) -> Iterator[Finding]:
    """Sweeps that are late, or left some records behind."""
    last = {row.max_age_days: row for row in Sweep.objects.all()}
    facts = [_standing(tier, last.get(tier.max_age_days), look.now) for tier in TIERS]
    for one in facts:
        subject = f"sweep:{one.tier.max_age_days}"
        if one.last and one.last.left_some and one.waiting:  # it is not late: the sweep came
            text = f"the sweep of records {one.age} took as many as it may ({one.last.swept:,}) and left older ones"
            do = f"raise JOBS['SWEEP_MAX_RECORDS'] (now {conf.sweep_max_records():,}), or cancel those that will never "
            yield replace(warning(text, f"{do}succeed: `{conf.PROGRAM} backlog cancel ID`"), subject=subject)
        elif one.late_by > OVERDUE.total_seconds():
            text = f"{counted(one.waiting)} records {one.age} wait for a sweep that is late by {span(one.late_by)}"
            do = (
                f"start a worker, or `{conf.PROGRAM} qcluster` after `{conf.PROGRAM} qcluster install`: either "
                f"sweeps. If both run, their logs have the reason; `{conf.PROGRAM} backlog sweep DAYS` sweeps by hand"
            )
            yield replace(problem(text, do), subject=subject)
    waiting = max(one.waiting for one in facts)
    yield ok(f"wait for a sweep, and are swept in time: {counted(waiting)}", waiting=waiting)
