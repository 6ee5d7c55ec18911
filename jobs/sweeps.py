"""The progressive schedule: sweeps that make ready what waits for one, whatever its number of failures.

    ≤ 1 day old     every 5 min         ≤ 30 days old     every 24 h
    ≤ 7 days old    hourly              ≤ 180 days old    every 96 h
    ≤ 14 days old   every 12 h          ≤ 360 days old    every 192 h

django-q2 runs them (`manage.py install_schedules`); a worker runs the one that is overdue (`run_overdue`). A tier is
swept once in each of its slots on the grid of `jobs/tiers.py`: sweeps that coincide make one attempt, and one that was
missed is not replayed. The newest come first, at most SWEEP_MAX_RECORDS a sweep.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction

from jobs import conf, decisions, tiers
from jobs.clock import database_clock
from jobs.models import Sweep
from jobs.prepared import execute
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify

log = logging.getLogger(__name__)

OVERDUE_AFTER = timedelta(seconds=60)
"""The scheduler of django-q2 looks every half minute."""

# Served by `backlog_swept`. What failed since the slot began has had its attempt of this slot.
SWEEP = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.READY}, waiting_for = NULL, exclusive_key = NULL, run_after = %(now)s::timestamptz
 WHERE ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_backlogrecord
        WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.SWEEP}
          AND inserted_at >= %(since)s::timestamptz
          AND (last_failure_at < %(before)s::timestamptz) IS NOT FALSE
        ORDER BY inserted_at DESC
        LIMIT %(limit)s::int
          FOR UPDATE SKIP LOCKED))
RETURNING queue
"""

# Served by `backlog_swept`.
LEFT = f"""
SELECT EXISTS (
       SELECT
         FROM jobs_backlogrecord
        WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.SWEEP}
          AND inserted_at >= %(since)s::timestamptz
          AND (last_failure_at < %(before)s::timestamptz) IS NOT FALSE)
"""


@dataclass(frozen=True)
class Swept:
    """What a sweep did: records made ready, and whether it left others because it reached its greatest number.

    `done_before`: its tier had been swept in this slot already, so it did nothing.
    """

    max_age_days: int
    ready: int = 0
    left_some: bool = False
    done_before: bool = False


def process_backlog(
    max_age_days: int, *, max_records: int | None = None, by_hand: bool = False, now: datetime | None = None
) -> Swept:
    """Make ready what waits for a sweep and is at most `max_age_days` old, the newest first.

    A tier's sweep is done once in its slot; a person's (`by_hand`) always, and for any age. `max_records`: at most so
    many, by default SWEEP_MAX_RECORDS. `now` (aware) replaces the database's clock in tests.
    Raises: ValueError for an age or a number below 1, or beyond the last tier.
    """
    limit = conf.sweep_max_records() if max_records is None else max_records
    if not 1 <= max_age_days * tiers.DAY <= tiers.OLDEST:
        raise ValueError(f"sweeps cover 1 to {tiers.OLDEST // tiers.DAY} days, not {max_age_days}")
    if limit < 1:
        raise ValueError(f"a sweep takes at least 1 record, not {limit}")
    with transaction.atomic():
        instant = now or database_clock()
        row = _locked_row(max_age_days)
        if not by_hand and row and row.swept_at >= _slot(instant, _interval(max_age_days)):
            return Swept(max_age_days, done_before=True)
        swept = _sweep(max_age_days, limit, instant, by_hand)
        _write_down(swept, row, instant)
        return swept


def run_overdue(now: datetime | None = None) -> int:
    """Sweep the tiers whose sweep of the present slot is overdue: a qcluster that is down costs a minute, no work.

    Returns how many records are ready by that.
    """
    instant = now or database_clock()
    swept_at = dict(Sweep.objects.values_list("max_age_days", "swept_at"))
    ready = 0
    for tier in tiers.TIERS:
        slot = _slot(instant, tier.every)
        last = swept_at.get(tier.max_age_days)
        if (last is None or last < slot) and instant >= slot + OVERDUE_AFTER:
            ready += process_backlog(tier.max_age_days, now=now).ready
    return ready


def _interval(max_age_days: int) -> int:
    """How often records up to that age are swept: as the tier that covers it."""
    return next(tier.every for tier in tiers.TIERS if tier.max_age_days >= max_age_days)


def _slot(now: datetime, every: int) -> datetime:
    return datetime.fromtimestamp(tiers.slot_of(now.timestamp(), every), UTC)


def _locked_row(max_age_days: int) -> Sweep | None:
    """The tier's row, locked, so that a worker and the qcluster sweep one after the other."""
    return Sweep.objects.select_for_update().filter(max_age_days=max_age_days).first()


def _sweep(max_age_days: int, limit: int, now: datetime, by_hand: bool) -> Swept:
    values = {
        "since": now - timedelta(days=max_age_days),
        "before": now + timedelta(days=1) if by_hand else _slot(now, tiers.SHORTEST),
        "now": now,
    }
    queues = [queue for (queue,) in execute(SWEEP, {**values, "limit": limit}).fetchall()]
    for queue in set(queues):
        notify(queue)
    left = len(queues) >= limit and bool(execute(LEFT, values).fetchall()[0][0])
    return Swept(max_age_days, len(queues), left)


def _write_down(swept: Swept, row: Sweep | None, now: datetime) -> None:
    facts = {"swept_at": now, "swept": swept.ready, "left_some": swept.left_some}
    if row is None:
        Sweep.objects.update_or_create(max_age_days=swept.max_age_days, defaults=facts)
    else:
        Sweep.objects.filter(pk=row.pk).update(**facts)
    if swept.left_some:
        said = (
            f"the sweep of the last {swept.max_age_days} days took its greatest number of records, {swept.ready}, and "
            "left older ones; they wait longer than their age says: raise JOBS['SWEEP_MAX_RECORDS'], or cancel what "
            "will never succeed"
        )
        log.warning("%s", said)
        decisions.doing("sweep left some", said, now=now)
