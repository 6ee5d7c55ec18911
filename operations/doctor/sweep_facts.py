"""How each tier of the progressive schedule stands, for the doctor."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.models import Sweep
from jobs.prepared import execute
from jobs.retries.sweeps import slot
from jobs.retries.tiers import TIERS, Tier
from jobs.states import Status, WaitingFor

COUNT_TO = 10_000
"""A larger number changes nothing that a person would do."""

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
class TierFacts:
    """One tier at one instant.

    `swept`, `left_some`: its last sweep; 0 and False: there was none. `waiting`: how many records wait for a sweep and
    are young enough for it, at most COUNT_TO + 1. `late_by`: how long ago its sweep should have taken one of these, at
    least; zero: it is in time.
    """

    tier: Tier
    swept: int
    left_some: bool
    waiting: int
    late_by: timedelta


def tier_facts(now: datetime) -> list[TierFacts]:
    """How the tiers stand at `now` (aware), the shortest first. One statement a tier, each bounded."""
    rows = {row.max_age_days: row for row in Sweep.objects.all()}
    return [_facts(tier, rows.get(tier.max_age_days), now) for tier in TIERS]


def _facts(tier: Tier, row: Sweep | None, now: datetime) -> TierFacts:
    values = {"since": now - timedelta(days=tier.max_age_days)}
    waiting, since = execute(WAITING, values).fetchall()[0]
    return TierFacts(
        tier=tier,
        swept=row.swept if row else 0,
        left_some=row.left_some if row else False,
        waiting=waiting,
        late_by=_late_by(tier, row.swept_at if row else None, since, now),
    )


def _late_by(tier: Tier, swept_at: datetime | None, waiting_since: datetime | None, now: datetime) -> timedelta:
    """A sweep is owed in the slot after the last one, if something waited then."""
    if waiting_since is None:
        return timedelta(0)
    owed = _slot_after(tier, max(waiting_since, swept_at) if swept_at else waiting_since)
    return max(timedelta(0), now - owed)


def _slot_after(tier: Tier, instant: datetime) -> datetime:
    return slot(tier, instant) + timedelta(seconds=tier.every)
