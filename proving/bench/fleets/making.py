"""A fleet at a period's start: everything is due, and all columns of the claim order vary.

One assignment in 19 was never backed up; the others became due within the last 14 days, and their last backups took
from a second to nearly three hours. No row of the backlog is there yet.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from jobs.clock import database_clock
from jobs.models import Throttle
from proving.bench.fleets.rows import up_to
from schedules.models import Schedule
from sources.models import Assignment, Policy, Repository, Source
from sources.planning import KIND, limit_seeding

PRIORITIES = 3
OPEN_FOR = timedelta(hours=12)
SEEDING_LIMIT = 4

NEVER = "n %% 19 = 0"
DUE_SINCE = "%(now)s::timestamptz - (n * 7919 %% 20160) * interval '1 minute'"
SPREAD = {
    "source_id": "%(before)s + n",
    "policy_id": "(%(policies)s::bigint[])[1 + (n %% %(policy_count)s)::int]",
    "next_backup_at": f"CASE WHEN {NEVER} THEN NULL ELSE {DUE_SINCE} END",
    "last_backup_at": f"CASE WHEN {NEVER} THEN NULL ELSE {DUE_SINCE} - interval '1 day' END",
    "last_backup_for": f"CASE WHEN {NEVER} THEN NULL ELSE 1 + (n * 104729 %% 100000) / 10.0 END",
}
"""Columns of the n-th assignment. The factors are primes, so that no key depends on another, or on the policy."""


def make_policy(number: int, throttle: Throttle | None = None, *, seeding_limit: int | None = None) -> Policy:
    """Make a daily policy whose window is open now and for the next hours, and whose trigger has come."""
    now = database_clock()
    schedule = Schedule.objects.create(
        name=f"policy {number}",
        cron="0 0 * * *",
        kind=KIND,
        provider="assignments",
        priority=number % PRIORITIES,
        throttle=throttle,
        next_trigger_at=now,
    )
    policy = Policy.objects.create(
        schedule=schedule,
        repository=Repository.objects.get_or_create(name="bench", defaults={"location": "/srv/backups"})[0],
        window=[open_window(now)],
        seeding_limit=seeding_limit,
    )
    limit_seeding(policy)
    for first_backup in (False, True):  # a lane is made at its first use, long before most periods
        policy.lane(first_backup=first_backup)
    return policy


def open_window(now: datetime) -> dict[str, str]:
    """A range of every day that opened an hour before `now` (UTC) and closes OPEN_FOR after it."""
    opened, closes = now - timedelta(hours=1), now + OPEN_FOR
    return {"days": "mon-sun", "start": f"{opened:%H:%M}", "end": f"{closes:%H:%M}"}


def make_assignments(count: int, policies: Sequence[Policy]) -> None:
    """Make `count` sources, each under one of `policies` in turn. A policy that is given twice gets twice as many."""
    first = Source.objects.create(name="source 1", kind="local", path="/srv/files")
    up_to(count, first, name="'source ' || n")
    values: dict[str, Any] = {
        "now": database_clock(),
        "before": first.pk - 1,
        "policies": [policy.pk for policy in policies],
        "policy_count": len(policies),
    }
    up_to(count, Assignment.objects.create(source=first, policy=policies[0]), values, **SPREAD)


def make_fleet(assignments: int, policies: int, *, throttled: bool) -> None:
    """Make a fleet under this many policies; `throttled`: each has its own throttle and seeding limit."""
    made = []
    for number in range(policies):
        throttle = Throttle.objects.create(name=f"throttle {number}", max_in_flight=8) if throttled else None
        made.append(make_policy(number, throttle, seeding_limit=SEEDING_LIMIT if throttled else None))
    make_assignments(assignments, made)
    keep_vacuum_away()


def keep_vacuum_away() -> None:
    """Turn autovacuum of the backlog off, so that it does not run during one measurement and not the other."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_backlogrecord SET (autovacuum_enabled = off)")
