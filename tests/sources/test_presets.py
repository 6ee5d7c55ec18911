"""One-click periods and windows of the form of a policy."""

import json
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from schedules.cron import Period
from sources.admin.policies import PERIODS, WINDOWS
from sources.domain.windows import Window

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Hourly", ["02 00", "02 01", "02 02"]),
        ("Daily", ["02 00", "03 00", "04 00"]),
        ("Weekdays", ["02 00", "03 00", "04 00", "05 00", "06 00", "09 00"]),
        ("Weekly", ["02 00", "09 00", "16 00"]),
        ("Monthly", ["01 00", "01 00", "01 00"]),
    ],
)
def test_a_preset_fires_as_its_name_says(name: str, expected: list[str]) -> None:
    [cron] = [filled for words, _, filled in PERIODS if words == name]
    found = islice(Period(cron, "UTC").after(MONDAY - timedelta(seconds=1)), len(expected))
    assert [f"{at:%d %H}" for at in found] == expected


@pytest.mark.parametrize(
    ("name", "hours_of_a_week"), [("Always", 168), ("Working hours", 50), ("Nights", 56), ("Weekends", 48)]
)
def test_a_window_preset_is_open_for_so_many_hours_a_week(name: str, hours_of_a_week: int) -> None:
    # none of them is open at 20:00 on a Monday, so none reaches out of the week
    start, end = MONDAY + timedelta(hours=20), MONDAY + timedelta(days=7, hours=20)
    [rows] = [filled for words, _, filled in WINDOWS if words == name]
    openings = Window.parse(json.loads(rows), "UTC").openings(start, end)
    open_for = sum((found.closes_at - found.opens_at for found in openings), timedelta())
    assert open_for == timedelta(hours=hours_of_a_week)
