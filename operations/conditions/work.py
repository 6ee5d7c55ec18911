"""The work: workers and their leases, what no step of the tick can deal with, and what runs by the clock."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.apps import apps

from external.durations import span
from external.formatting import first_line, moment, several
from external.sockets import MOST, RESERVED
from jobs import conf
from jobs.closing import LOOK_AGAIN_AFTER, SET_ASIDE
from jobs.models import Sweep, Worker
from jobs.prepared import execute
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
def sockets(look: Look) -> Iterator[Case]:
    """Whether workers ask as many sources at once as they would, or their file descriptors are used up."""
    bound = Worker.alive(look.now).filter(out_of_sockets_at__gt=look.now - LATELY).order_by("pk")
    for worker in bound:
        yield Case(f"worker:{worker.pk}", f"{worker.name} ({worker.sockets} sockets)", worker.out_of_sockets_at)


# Served by `backlog_lease_expires`. Nothing is rescued for one lease after the start of the server.
NOT_RESCUED = f"""
SELECT count(*), min(lease_expires_at),
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
def expired_leases(look: Look) -> Iterator[Case]:
    """Leases that expired two leases ago, and that no worker rescued. A worker that ticks rescues after one."""
    before = look.now - timedelta(seconds=2 * conf.lease_seconds())
    [(count, oldest, records)] = rows(NOT_RESCUED, before=before)
    if count:
        ago = span((look.now - oldest).total_seconds())
        yield Case("leases", f"{counted(count)}, the oldest {ago} ago (record {', '.join(map(str, records))})", oldest)


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
    "SELECT o.id, o.name, s.cron, o.zone FROM schedules_schedule s JOIN jobs_origin o ON o.id = s.origin_id "
    f"WHERE s.enabled ORDER BY o.id LIMIT {COUNT_TO}"
)

# By `trigger_unfinished`.
TRIGGERS = f"""
SELECT t.id, o.name, t.trigger_at, t.seen_at
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
def set_aside(look: Look) -> Iterator[Case]:
    """Records, schedules and triggers that no step of the tick can deal with: they hold up nothing, and wait."""
    for pk, error in rows(RECORDS, now=look.now, again=LOOK_AGAIN_AFTER, pattern=f"{SET_ASIDE}%"):
        yield Case(f"record:{pk}", f"record {pk}: {first_line(str(error).removeprefix(SET_ASIDE))}")
    for pk, name, cron, zone in rows(SCHEDULES):
        if why := _unreadable(cron, zone):
            yield Case(f"schedule:{pk}", f"schedule {name} emits nothing: {why}")
    for pk, name, at, since in rows(TRIGGERS, now=look.now):
        yield Case(f"trigger:{pk}", f"the trigger {name} of {moment(at)} UTC cannot be emitted", since)


def _unreadable(cron: str, zone: str) -> str:
    try:
        Period(cron, zone).check()
    except ValueError as error:
        return str(error)
    return ""


@condition(
    "the periodic tasks are installed, and run in time",
    "{}; backups and sweeps go on while a worker lives, since workers tick and sweep by themselves; only pruning and "
    "digests wait",
)
def periodic_tasks(look: Look) -> Iterator[Finding]:
    """Whether the tick, pruning and the sweeps are scheduled, on their grid, and the qcluster runs them."""
    if not apps.is_installed("django_q"):
        yield ok("django-q2 is not installed here; nothing is pruned by itself")
        return
    from django_q.models import OrmQ, Schedule

    from operations.periodic_tasks import WANTED, matched

    found, _ = matched(Schedule.objects.order_by("pk"))
    install = f"`{conf.PROGRAM} install_schedules`"
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
            do = f"is `{conf.PROGRAM} qcluster` running? Start it again: a killed process of it may hold its queue"
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


@condition()
def sweeps(look: Look) -> Iterator[Finding]:
    """Whether what waits for a sweep is swept when it should be, and all of it."""
    last = {row.max_age_days: row for row in Sweep.objects.all()}
    facts = [_standing(tier, last.get(tier.max_age_days), look.now) for tier in TIERS]
    for one in facts:
        subject = f"sweep:{one.tier.max_age_days}"
        if one.last and one.last.left_some and one.waiting:  # it is not late: the sweep came
            text = f"the sweep of what is {one.age} took as many as it may ({one.last.swept:,}) and left older records"
            do = f"raise JOBS['SWEEP_MAX_RECORDS'] (it is {conf.sweep_max_records():,}), or cancel what will never "
            yield replace(warning(text, f"{do}succeed: `{conf.PROGRAM} backlog cancel ID`"), subject=subject)
        elif one.late_by > OVERDUE.total_seconds():
            text = f"{counted(one.waiting)} records {one.age} wait for a sweep that is late by {span(one.late_by)}"
            do = (
                f"start a worker, or `{conf.PROGRAM} qcluster` after `{conf.PROGRAM} install_schedules`: either "
                f"sweeps. If both run, their logs say why not; `{conf.PROGRAM} process_backlog DAYS` sweeps by hand"
            )
            yield replace(problem(text, do), subject=subject)
    waiting = max(one.waiting for one in facts)
    yield ok(f"wait for a sweep, and are swept in time: {counted(waiting)}", waiting=waiting)
