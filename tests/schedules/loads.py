"""Loads that schedules put on a throttle."""

from datetime import UTC, datetime
from typing import Any

from jobs.models import Throttle
from schedules.capacity import Capacity, Demand, Limits, assess
from schedules.models import Schedule

SATURDAY = datetime(2026, 11, 21, tzinfo=UTC)
"""Midnight. Seven days without a change of the clock in Europe."""


def demand(events: int = 1_000, seconds_each: float = 1.0, **fields: Any) -> Demand:
    """Hourly, spread over the hour."""
    values = {"name": "hourly", "cron": "0 * * * *", "zone": "UTC", "window_for": 3_600, "stagger": "even"}
    return Demand(Schedule(**(values | fields)), events, seconds_each)


def slow(rate: float | None = 1.0, in_flight: int = 50) -> Limits:
    return Limits(Throttle(name="slow", max_in_flight=in_flight, rate=rate))


def found(*others: Demand, limits: Limits | None = None, now: datetime = SATURDAY, **fields: Any) -> Capacity:
    return assess([demand(**fields), *others], limits or Limits(), now)
