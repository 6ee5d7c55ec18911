"""The last thirty days of all sources together, from the attempts: what was backed up, what failed and what was missed,
and what was added to each repository; how much room is left there, and when it is used up at that pace.

A day that is over is counted once, by the minute's round of any process, and kept: its attempts may be pruned, and the
backups of a repository are removed by retention. Today is counted when it is looked at.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from dashboard.models import DayTotal
from jobs.clock import database_clock
from jobs.prepared import execute
from jobs.states import AttemptOutcome
from sources.models import Repository
from sources.planning import BACKUPS, KIND

DAYS = 30
LEAST_DAYS = 7
"""Days of history without which no day is named on which a repository is full."""
FURTHEST = timedelta(days=3650)

# Served by `attempt_ended`. A row that counts many silences counts for each day from its first to its last.
COUNT = f"""
WITH ran AS MATERIALIZED (
    SELECT record.subject, attempt.outcome, attempt.facts
      FROM jobs_attempt attempt
      JOIN jobs_backlogrecord record ON record.id = attempt.record_id
     WHERE record.kind = '{KIND}' AND attempt.ended_at >= %(begins)s
       AND CASE WHEN attempt.outcome = {AttemptOutcome.UNAVAILABLE} THEN attempt.started_at < %(ends)s
                ELSE attempt.ended_at < %(ends)s END
       AND (attempt.queue = '{BACKUPS}' OR attempt.outcome = {AttemptOutcome.UNAVAILABLE})
), subject AS (
    SELECT bool_or(outcome = {AttemptOutcome.SUCCEEDED}) AS succeeded,
           bool_or(outcome IN ({AttemptOutcome.FAILED}, {AttemptOutcome.RESCUED})) AS failed,
           bool_or(outcome = {AttemptOutcome.UNAVAILABLE}) AS silent
      FROM ran
     GROUP BY subject
)
SELECT count(*) FILTER (WHERE succeeded), count(*) FILTER (WHERE failed AND NOT succeeded),
       count(*) FILTER (WHERE silent AND NOT failed AND NOT succeeded)
  FROM subject
"""

ADDED = """
SELECT repository_id, sum(added)::bigint
  FROM sources_backup
 WHERE ended_at >= %(begins)s AND ended_at < %(ends)s AND added > 0
 GROUP BY repository_id
"""


def last_days(now: datetime) -> list[DayTotal]:
    """The oldest first, the last one being today so far. A day that is not counted yet is left out."""
    today = now.astimezone(UTC).date()
    return [*DayTotal.objects.filter(date__gt=today - timedelta(days=DAYS)).order_by("date"), count(today)]


def count(day: date) -> DayTotal:
    """A day, unsaved."""
    begins = datetime.combine(day, time(), UTC)
    values: dict[str, Any] = {"begins": begins, "ends": begins + timedelta(days=1)}
    succeeded, failed, missed = execute(COUNT, values).fetchone() or (0, 0, 0)
    added = {str(repository): size for repository, size in execute(ADDED, values).fetchall()}
    return DayTotal(date=day, succeeded=succeeded, failed=failed, missed=missed, added=added)


def keep() -> int:
    """Count one day that is over and is not kept yet, the latest first, and forget what is older than the strip."""
    today = database_clock().astimezone(UTC).date()
    kept = set(DayTotal.objects.values_list("date", flat=True))
    forgotten, _ = DayTotal.objects.filter(date__lte=today - timedelta(days=DAYS)).delete() if kept else (0, {})
    missing = next((day for back in range(1, DAYS) if (day := today - timedelta(days=back)) not in kept), None)
    if missing is None:
        return forgotten
    created = DayTotal.objects.bulk_create([count(missing)], ignore_conflicts=True)
    return forgotten + len(created)


def repositories(days: Sequence[DayTotal], today: date) -> list[dict[str, Any]]:
    """All repositories, by name. `free` and `total`: bytes, None if unknown; `used_share`: percent. `full_on`: the day
    at the pace of the last thirty days, None if unknown or not within ten years. `pace`: bytes a day, None if the
    history is too short.
    """
    return [_room(each, days, today) for each in Repository.objects.order_by("name")]


def _room(repository: Repository, days: Sequence[DayTotal], today: date) -> dict[str, Any]:
    pace, free, total = _pace(repository, days, today), repository.room_free, repository.room_total
    kind = repository.remote.get("type")
    return {
        "id": repository.pk, "name": repository.name, "free": free, "total": total, "pace": pace,
        "where": f"{kind}: {repository.location}" if kind else repository.location,
        "used_share": None if free is None or not total else 100 - 100 * free // total,
        "full_on": _full_on(free, pace, today),
    }  # fmt: skip


def _pace(repository: Repository, days: Sequence[DayTotal], today: date) -> float | None:
    """Bytes a day since its first backup among these days, today left out: it is not over."""
    name = str(repository.pk)
    over = [day for day in days if day.date < today]
    first = next((day.date for day in over if day.added.get(name)), None)
    if first is None or (today - first).days < LEAST_DAYS:
        return None
    added: int = sum(day.added.get(name, 0) for day in over)
    return added / (today - first).days


def _full_on(free: int | None, pace: float | None, today: date) -> date | None:
    if free is None or not pace:
        return None
    ahead = free / pace
    return today + timedelta(days=int(ahead)) if ahead < FURTHEST.days else None
