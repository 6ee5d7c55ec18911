"""Waits for a window, and pauses by users, that a database clock which was ahead has made too long.

A window determines the latest instant until which its records may wait, whichever clock computed the wait: a record
that waits for longer is closed again, so that the tick asks the window once more. A pause by a user that begins in the
future begins now. `jobs.clock_repairs` has the waits that follow from attempts.
"""

import time
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from jobs import window_ends
from jobs.clock import database_clock
from jobs.clock_repairs import A_MOMENT, BATCH, SECONDS
from jobs.prepared_statements import execute, until_done
from jobs.states import Status, WaitingFor
from sources.models import Pause, Policy, Source
from sources.planning.names import COPY, OF_ASSIGNMENTS

LONGEST_OF_USERS = timedelta(days=7)
"""The longest pause that an agent may ask for. A longer one is until a date that an operator has named."""

# Served by `backlog_waiting_until`.
WAITS_FOR_WINDOW = f"""
       b.status = {Status.WAITING} AND b.waiting_for = {WaitingFor.WINDOW} AND b.kind = ANY(%(kinds)s::text[])
   AND b.run_after > %(after)s::timestamptz"""
FURTHEST = f"""
SELECT a.policy_id, b.kind = '{COPY}', max(b.run_after)
  FROM jobs_backlogrecord b
  JOIN sources_assignment a ON b.subject = 'assignment:' || a.id
 WHERE {WAITS_FOR_WINDOW}
 GROUP BY 1, 2
 ORDER BY 3 DESC
"""
# By subjects: joined, the planner reads all assignments of the policy for each record that waits.
# `window_ends.LOOK_AGAIN_AFTER` is the wait of records that were set aside, whose window cannot be read.
CLOSE_AGAIN = f"""
UPDATE jobs_backlogrecord
   SET run_after = %(now)s::timestamptz, closes_at = %(now)s::timestamptz
 WHERE id = ANY(ARRAY(
       SELECT b.id
         FROM jobs_backlogrecord b
        WHERE {WAITS_FOR_WINDOW}
          AND b.subject = ANY(ARRAY(
              SELECT 'assignment:' || id FROM sources_assignment WHERE policy_id = %(policy)s::bigint))
          AND (b.kind = '{COPY}') = %(is_copy)s::boolean
          AND (b.closes_at IS NULL OR b.closes_at > %(now)s::timestamptz OR b.run_after > %(set_aside)s::timestamptz)
        ORDER BY b.id
        LIMIT %(limit)s::int
          FOR UPDATE OF b SKIP LOCKED))
"""


def correct(now: datetime | None = None) -> int:
    """Shorten the pauses and the waits for windows that last too long, for some seconds; the next round does the rest.
    Returns how many.

    `now` (aware) replaces the database's clock in tests.
    """
    instant = now or database_clock()
    return _shorten_pauses(instant) + _close_again(instant)


def _close_again(now: datetime) -> int:
    until = time.monotonic() + SECONDS
    values = {
        "kinds": list(OF_ASSIGNMENTS),
        "now": now,
        "set_aside": now + window_ends.LOOK_AGAIN_AFTER,
        "limit": BATCH,
    }
    found = execute(FURTHEST, {**values, "after": now + A_MOMENT}).fetchall()
    policies = Policy.objects.select_related("schedule").in_bulk({policy for policy, *_ in found})
    closed = 0
    for policy_id, is_copy, furthest in found:
        if time.monotonic() >= until:
            break
        if not (policy := policies.get(policy_id)):
            continue
        after = _latest_opening(policy, now, is_copy=is_copy) + A_MOMENT
        if furthest > after:
            rest = {**values, "policy": policy_id, "is_copy": is_copy, "after": after}
            step = lambda rest=rest: execute(CLOSE_AGAIN, rest).rowcount  # noqa: E731
            closed += until_done(step, BATCH, until - time.monotonic())
    return closed


def _latest_opening(policy: Policy, now: datetime, *, is_copy: bool) -> datetime:
    """The latest instant until which a record of the policy may wait for its window: the next opening; or the one after
    the present one, if backups that do not fit are left out.
    """
    opens_at, closes_at = policy.copy_opening(now) if is_copy else policy.opening(now)
    if opens_at <= now and closes_at and policy.only_if_it_fits and not is_copy:
        return policy.opening(closes_at)[0]
    return opens_at


def _shorten_pauses(now: datetime) -> int:
    """Let pauses by users that begin in the future begin now, and last as long as they were to last."""
    begun_later = Source.objects.filter(paused_by_user=True, paused_at__gt=now + A_MOMENT)
    chosen = begun_later.filter(paused_until__lte=F("paused_at") + LONGEST_OF_USERS).order_by("pk")
    return sum(_begin_now(source, now) for source in chosen)


@transaction.atomic
def _begin_now(source: Source, now: datetime) -> int:
    since, until = source.paused_at, source.paused_until
    if since is None or until is None:
        return 0
    as_read = Source.objects.filter(pk=source.pk, paused_at=since, paused_until=until)
    if not as_read.update(paused_at=now, paused_until=now + (until - since)):
        return 0  # an operator or the user has changed the pause in the meantime
    Pause.objects.filter(source=source, since=since, until=None).update(since=now)
    return 1
