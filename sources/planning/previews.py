"""The coming periods of a policy with their openings: for the admin, the API and `manage.py policies preview`."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Count

from engines.not_kept import not_kept
from external.durations import span
from jobs.clock import database_clock
from schedules.time_limits import LONGEST_SECONDS, TimeCheck, within
from sources.domain.preview import PreviewedPeriod, coming_periods
from sources.models import Policy

LARGEST_COUNT, TO_LOOK_AT = 1000, 100
"""Periods, and those that an account gets over the API that may not change policies."""
SHOWN_HOLIDAYS = 10
HEADERS = ("period begins", "UTC", "lasts", "open from – to", "the same in UTC", "open for")


def preview(
    policy: Policy,
    count: int = 10,
    start: datetime | None = None,
    now: datetime | None = None,
    seconds: float = LONGEST_SECONDS,
) -> list[PreviewedPeriod]:
    """The first `count` periods that begin at or after `start` (aware; left out: `now`).

    The policy need not have been saved, so a form can show its effects. Raises: ValueError for a count that is not 1 to
    1000, when cron, zone or window cannot be read, or when it takes more than `seconds`.
    """
    if not 1 <= count <= LARGEST_COUNT:
        raise ValueError(f"{count} periods cannot be shown; ask for 1 to {LARGEST_COUNT}")
    schedule, check_time = policy.schedule, within(seconds, f"{count} periods: ask for fewer")
    return coming_periods(schedule.period, policy.weekly_window, start or now or database_clock(), count, check_time)


def holidays_of(policy: Policy, periods: list[PreviewedPeriod]) -> list[tuple[date, str]]:
    """The next public holidays from these periods on, for a year, on which no range of its window begins, with their
    names."""
    if not periods:
        return []
    first = periods[0].begins_at.astimezone(policy.schedule.period.tzinfo).date()
    return list(islice(policy.weekly_window.excluded.holidays(first, first + timedelta(days=366)), SHOWN_HOLIDAYS))


def lost_of(policy: Policy) -> dict[str, list[str]]:
    """The parts of its sources that are not kept, by kind of source."""
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
        "holidays": [{"date": day.isoformat(), "name": name} for day, name in holidays_of(policy, periods)],
        "not_kept": lost_of(policy),
        "periods": [_period_facts(period, schedule.period.tzinfo) for period in periods],
    }


def rows_of(policy: Policy, periods: list[PreviewedPeriod]) -> Iterator[tuple[str, ...]]:
    """The rows under HEADERS, one an opening, in the zone of the policy. The values of a period are in
    its first row.
    """
    zone = policy.schedule.period.tzinfo
    for period in periods:
        begins = period.begins_at.astimezone(zone)
        own = (
            f"{begins:%a %Y-%m-%d %H:%M}",
            f"{period.begins_at:%m-%d %H:%M}",
            _length(period.begins_at, period.ends_at),
        )
        if not period.openings:
            yield (*own, "no opening", period.warning, "")
        for each in period.openings:
            ends = (each.opens_at, each.closes_at)
            local = " – ".join(f"{end.astimezone(zone):%a %m-%d %H:%M}" for end in ends)
            yield (*own, local, " – ".join(f"{end:%a %m-%d %H:%M}" for end in ends), _length(*ends))
            own = ("", "", "")


def _length(start: datetime, end: datetime) -> str:
    return span((end - start).total_seconds())


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


def batches_of_policies(schedule_ids: list[int], check_time: TimeCheck) -> dict[int, tuple[int, float]]:
    """The batches of the policies with these schedules, by the id of the schedule: the largest number of records of a
    batch, and the seconds for which their windows are open in a period: the least of the coming ten that have an
    opening. `check_time` is called before each, and may raise.
    """
    policies = Policy.objects.filter(schedule__in=schedule_ids).select_related("schedule")
    return {
        policy.schedule_id: (policy.number, _least_open_time(policy, check_time))
        for policy in policies.annotate(number=Count("assignments"))
    }


def _least_open_time(policy: Policy, check_time: TimeCheck) -> float:
    """The least open time in seconds; 0 if it is not known, or if there is none."""
    check_time()
    try:
        periods = preview(policy)
    except ValueError:  # stored past its form
        return 0
    spans = [sum((each.closes_at - each.opens_at).total_seconds() for each in one.openings) for one in periods]
    return min(filter(None, spans), default=0)
