"""The coming periods of a policy with their openings: for the admin, the API and `manage.py preview`."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Count

from jobs.clock import database_clock
from schedules.capacity import batch_sizes
from schedules.cron import check_expression, check_zone
from sources.domain.not_kept import not_kept
from sources.domain.preview import PreviewedPeriod, coming_periods
from sources.models import Assignment, Policy

LARGEST_COUNT = 1000


def preview(
    policy: Policy, count: int = 10, start: datetime | None = None, now: datetime | None = None
) -> list[PreviewedPeriod]:
    """The first `count` periods that begin at or after `start` (aware; left out: `now`).

    The policy need not have been saved, so a form can show what it would do.
    Raises: ValueError for a count that is not 1 to 1000, or when cron, zone or window cannot be read.
    """
    if not 1 <= count <= LARGEST_COUNT:
        raise ValueError(f"{count} periods cannot be shown; ask for 1 to {LARGEST_COUNT}")
    schedule = policy.schedule
    check_zone(schedule.zone)
    check_expression(schedule.cron)
    return coming_periods(schedule.period, policy.weekly_window, start or now or database_clock(), count)


def lost_of(policy: Policy) -> dict[str, list[str]]:
    """What is not kept of its sources, by their kind."""
    if policy.pk is None:
        return {}
    kinds = policy.assignments.order_by("source__kind").values_list("source__kind", flat=True).distinct()
    return {kind: not_kept(kind, policy.repository.remote.get("type", "")) for kind in kinds}


def as_json(policy: Policy, periods: list[PreviewedPeriod]) -> dict[str, Any]:
    """Instants as ISO 8601, in UTC and, by `*_local`, in the policy's zone; lengths in seconds."""
    schedule = policy.schedule
    return {
        "policy": schedule.name,
        "enabled": schedule.enabled,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "window": policy.window,
        "excluded_dates": policy.excluded_dates,
        "not_kept": lost_of(policy),
        "periods": [_period_facts(period, schedule.period.tzinfo) for period in periods],
    }


def _period_facts(period: PreviewedPeriod, zone: ZoneInfo) -> dict[str, Any]:
    openings = [_stretch("opens_at", each.opens_at, "closes_at", each.closes_at, zone) for each in period.openings]
    own = _stretch("begins_at", period.begins_at, "ends_at", period.ends_at, zone)
    return {**own, "openings": openings, "warning": period.warning}


def _stretch(first: str, start: datetime, last: str, end: datetime, zone: ZoneInfo) -> dict[str, Any]:
    return {
        first: start.isoformat(),
        last: end.isoformat(),
        f"{first}_local": start.astimezone(zone).isoformat(),
        f"{last}_local": end.astimezone(zone).isoformat(),
        "seconds": (end - start).total_seconds(),
    }


def numbers_of_assignments(schedule_ids: list[int]) -> dict[int, int]:
    """How many records a batch of these policies' schedules has at most, by the id of the schedule."""
    found = Assignment.objects.filter(policy__schedule__in=schedule_ids).values("policy__schedule")
    return {row["policy__schedule"]: row["count"] for row in found.annotate(count=Count("pk"))}


batch_sizes.append(numbers_of_assignments)
