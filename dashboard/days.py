"""The last thirty days of all sources together, from the attempts: successes, failures, missed days, and the data added
to each repository; the room left there, and when it is used up at that pace.

A day that is over is counted once, by the round of any process, and kept: its attempts may be pruned, and the backups
of a repository are removed by retention. Today is counted when it is viewed; once more than 10,000 assignments have a
result that day, the round counts it every five minutes, and the page shows the time of that count.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from dashboard.models import DayTotal
from jobs.clock import database_clock
from jobs.prepared_statements import execute
from jobs.states import AttemptOutcome
from sources.models import Repository
from sources.planning import BACKUPS, KIND

DAYS = 30
LEAST_DAYS = 7
"""Days of history without which no day is named on which a repository is full."""
FURTHEST = timedelta(days=3650)
MUCH = 10_000
"""Assignments of today, from which on they are not counted at each look: that takes a tenth of a second."""
FRESH = timedelta(minutes=4)
"""The least time between two counts of today: each worker has such a round every five minutes, qcluster each minute."""
OLD = timedelta(minutes=12)
"""The age from which no round has kept it, so that it is counted when it is viewed."""

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
    kept = {each.date: each for each in DayTotal.objects.filter(date__gt=today - timedelta(days=DAYS))}
    so_far = kept.pop(today, None)
    if so_far is None or so_far.counted_at is None or abs(now - so_far.counted_at) > OLD:
        so_far = count(today)
    return [*(kept[day] for day in sorted(kept) if day < today and not kept[day].counted_at), so_far]


def count(day: date) -> DayTotal:
    """A day, unsaved."""
    begins = datetime.combine(day, time(), UTC)
    values: dict[str, Any] = {"begins": begins, "ends": begins + timedelta(days=1)}
    succeeded, failed, missed = execute(COUNT, values).fetchone() or (0, 0, 0)
    added = {str(repository): size for repository, size in execute(ADDED, values).fetchall()}
    return DayTotal(date=day, succeeded=succeeded, failed=failed, missed=missed, added=added)


def keep() -> int:
    """Count past days that are not kept yet, the latest first, up to one on which there was anything, and today if that
    is much, and delete older ones than the strip shows. Returns more than 0 if another round has something to do at
    once; today never causes one, as it is counted to its end anyway.
    """
    now = database_clock()
    today = now.astimezone(UTC).date()
    kept = dict(DayTotal.objects.values_list("date", "counted_at"))
    oldest = today - timedelta(days=DAYS)
    is_old = any(day <= oldest for day in kept)
    forgotten, _ = DayTotal.objects.filter(date__lte=oldest).delete() if is_old else (0, {})
    is_over = {day for day, counted_at in kept.items() if counted_at is None}
    missing = [day for back in range(1, DAYS) if (day := today - timedelta(days=back)) not in is_over]
    found = _until_there_was_anything(missing)
    is_left = len(found) < len(missing) or any(map(_size, found))
    if today not in kept or abs(now - (kept[today] or now - OLD)) > FRESH:
        so_far = count(today)
        so_far.counted_at = now
        found += [so_far] if _size(so_far) > MUCH else []
    fields = ["succeeded", "failed", "missed", "added", "counted_at"]
    DayTotal.objects.bulk_create(found, update_conflicts=True, unique_fields=["date"], update_fields=fields)
    return forgotten + is_left


def _until_there_was_anything(missing: Sequence[date]) -> list[DayTotal]:
    """The counts of these days, up to the first day that is not empty: before the first backup all days are."""
    found = list[DayTotal]()
    for day in missing:
        found.append(count(day))
        if _size(found[-1]):
            break
    return found


def _size(day: DayTotal) -> int:
    return day.succeeded + day.failed + day.missed


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
