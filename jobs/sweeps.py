"""The progressive schedule: sweeps, which make the records ready that wait for one, however often they failed.

    ≤ 1 day old     every 5 min         ≤ 30 days old     every 24 h
    ≤ 7 days old    hourly              ≤ 180 days old    every 96 h
    ≤ 14 days old   every 12 h          ≤ 360 days old    every 192 h

qcluster runs them; workers run those that are overdue (`run_overdue`). A tier is swept once in each of its slots on the
grid of `tiers`, the newest records first, at most SWEEP_MAX_RECORDS per sweep. A missed sweep is not replayed; a late
one still counts for its slot, and takes the records that it would have taken on time.

Two sweeps of a tier at once: its advisory lock lets one through, and the other one ends without waiting. Sweeps of
several tiers at once cause one attempt: a record that has failed since a tier's slot began has had its attempt of that
slot.

A sweep is one transaction: if it is killed, nothing has happened, and the next round repeats it. It waits for no lock:
records are locked last and skipped where others hold them. A sweep that had to skip some does not count, so that the
next round, a minute later, sweeps again: a lock of a moment must not cost a record 192 hours.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from jobs import conf, decisions, promotion
from jobs.clock import database_clock
from jobs.models import Sweep
from jobs.prepared_statements import execute
from jobs.retries import tiers
from jobs.states import Status, WaitingFor

log = logging.getLogger(__name__)

OVERDUE_AFTER = timedelta(seconds=60)
"""A clock next to the workers may look every half minute."""

LARGEST = 1_000_000
"""The most records of a sweep, whatever the request: more would be one transaction of minutes."""

# A failure in the future was dated by a clock that was wrong: it must not hide its record until then. Within a minute
# it counts as past, since others settle between the reading of the clock and this statement.
WANTED = f"""waiting_for = {WaitingFor.SWEEP}
          AND inserted_at >= %(since)s::timestamptz
          AND (last_failure_at >= %(tried_since)s::timestamptz
               AND last_failure_at < %(now)s::timestamptz + interval '1 minute') IS NOT TRUE"""

# Served by `backlog_swept`.
SWEEP = promotion.statement(WANTED, "inserted_at DESC", key="ctid")

# Served by `backlog_swept`. In order, since with EXISTS the planner may read the whole table for a row that is not
# there.
ANOTHER = f"""
SELECT id
  FROM jobs_backlogrecord
 WHERE status = {Status.WAITING} AND {WANTED}
 ORDER BY inserted_at DESC
 LIMIT 1
"""

# In the space of two-part keys, which nothing else uses.
ALONE = "SELECT pg_try_advisory_xact_lock(hashtext('sweep'), %(max_age_days)s::int)"


_SLOT = "floor(extract(epoch FROM {}) / tier.every)"

MAY_BE_OVERDUE = f"""EXISTS (
           SELECT
             FROM (VALUES {", ".join(f"({tier.max_age_days}, {tier.every})" for tier in tiers.TIERS)})
               AS tier(max_age_days, every)
             LEFT JOIN jobs_sweep s ON s.max_age_days = tier.max_age_days
            WHERE {_SLOT.format("s.swept_at")} IS DISTINCT FROM {_SLOT.format("clock.now")})"""
"""A condition that holds where `run_overdue` has anything to do, or will have within a minute."""


@dataclass(frozen=True)
class Swept:
    """The result of a sweep: records made ready, and whether it left others because it reached its greatest number.

    `done_before`: its tier had been swept in this slot already, or was being swept just then, so it did nothing.
    `skipped`: others held some of its records; it is done again in a minute.
    """

    max_age_days: int
    ready: int = 0
    left_some: bool = False
    done_before: bool = False
    skipped: bool = False


def sweep_tier(max_age_days: int, *, max_records: int | None = None, now: datetime | None = None) -> Swept:
    """Make records ready that wait for a sweep and are at most `max_age_days` old, the newest first, once per slot.

    `max_records`: their largest number, by default SWEEP_MAX_RECORDS. `now` (aware) replaces the database's clock in
    tests. Raises: ValueError for an age that no tier has, or a number below 1 or beyond LARGEST.
    """
    known = {tier.max_age_days: tier for tier in tiers.TIERS}
    if max_age_days not in known:
        raise ValueError(f"there is no tier of {max_age_days} days; there are {', '.join(map(str, known))}")
    tier = known[max_age_days]
    limit = _limit(max_records)
    with transaction.atomic():
        if not execute(ALONE, {"max_age_days": max_age_days}).fetchall()[0][0]:
            return Swept(max_age_days, done_before=True)
        instant = now or database_clock()
        row = Sweep.objects.filter(max_age_days=max_age_days).first()
        if not is_due(tier, row.swept_at if row else None, instant):
            return Swept(max_age_days, done_before=True)
        swept = _sweep(tier.max_age_days, limit, wanted(tier, instant))
        if not swept.skipped:
            _write_down(swept, row, instant)
        return swept


def sweep_by_hand(
    max_age_days: int, *, max_records: int | None = None, dry_run: bool = False, now: datetime | None = None
) -> Swept:
    """Make the records ready at once that wait for a sweep and are at most `max_age_days` old (any number), the newest
    first.

    It also takes records that have just failed, and does not replace the sweep of a tier. `dry_run`: only counts.
    Raises: ValueError for an age or a number below 1, or beyond the last tier or LARGEST.
    """
    limit = _limit(max_records)
    if not 1 <= max_age_days * tiers.DAY <= tiers.OLDEST:
        raise ValueError(f"sweeps cover 1 to {tiers.OLDEST // tiers.DAY} days, not {max_age_days}")
    with transaction.atomic():
        instant = now or database_clock()
        values = {"since": instant - timedelta(days=max_age_days), "tried_since": "infinity", "now": instant}
        swept = _sweep(max_age_days, limit, values)
        if dry_run:
            transaction.set_rollback(True)
        elif swept.ready:
            text = f"a user swept records up to {max_age_days} days old: {swept.ready} ready"
            decisions.log("swept by hand", text, now=instant)
        return swept


def run_overdue(now: datetime | None = None) -> int:
    """Sweep the tiers whose sweep of the present slot is overdue, so that a qcluster that is down costs only a minute.

    Returns the number of records that were made ready.
    """
    instant = now or database_clock()
    swept_at = dict(Sweep.objects.values_list("max_age_days", "swept_at"))
    return sum(
        sweep_tier(tier.max_age_days, now=now).ready
        for tier in tiers.TIERS
        if is_due(tier, swept_at.get(tier.max_age_days), instant) and instant >= slot(tier, instant) + OVERDUE_AFTER
    )


def slot(tier: tiers.Tier, now: datetime) -> datetime:
    """The beginning of the tier's slot that contains `now`."""
    return datetime.fromtimestamp(tiers.slot_of(now.timestamp(), tier.every), UTC)


def is_due(tier: tiers.Tier, swept_at: datetime | None, now: datetime) -> bool:
    """True if the tier has not been swept in the slot of `now`. A sweep in a future slot (a clock that was wrong)
    counts for that one only.
    """
    return swept_at is None or slot(tier, swept_at) != slot(tier, now)


def wanted(tier: tiers.Tier, now: datetime) -> dict[str, Any]:
    """The values of WANTED for the tier's sweep in the slot of `now`: ages are those at the slot's beginning."""
    began = slot(tier, now)
    return {"since": began - timedelta(days=tier.max_age_days), "tried_since": began, "now": now}


def _limit(max_records: int | None) -> int:
    limit = conf.sweep_max_records() if max_records is None else max_records
    if not 1 <= limit <= LARGEST:
        raise ValueError(f"a sweep takes 1 to {LARGEST:,} records at most, not {limit:,}")
    return limit


def _sweep(max_age_days: int, limit: int, values: Mapping[str, Any]) -> Swept:
    ready = len(promotion.make_ready(SWEEP, {**values, "limit": limit}))
    more = bool(execute(ANOTHER, dict(values)).fetchall())
    full = ready >= limit
    return Swept(max_age_days, ready, left_some=more and full, skipped=more and not full)


def _write_down(swept: Swept, row: Sweep | None, now: datetime) -> None:
    sweep = Sweep(max_age_days=swept.max_age_days, swept_at=now, swept=swept.ready, left_some=swept.left_some)
    Sweep.objects.bulk_create(
        [sweep],
        update_conflicts=True,
        unique_fields=["max_age_days"],
        update_fields=["swept_at", "swept", "left_some"],
    )
    if not swept.left_some:
        return
    text = (
        f"the sweep of records up to {swept.max_age_days} days old took its maximum, "
        f"{swept.ready:,}, and left older ones, which wait longer than intended for their age: raise "
        "JOBS['SWEEP_MAX_RECORDS'], or cancel the records that will never succeed"
    )
    # at most once a day: the row shows it all the time, and nobody reads 288 warnings a day
    if row is None or not row.left_some or row.swept_at.date() != now.date():
        log.warning("%s", text)
        decisions.log("sweep left some", text, now=now)
