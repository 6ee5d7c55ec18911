"""One-click periods and windows."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from schedules.cron import Period
from sources.domain.presets import PRESETS, WINDOW_PRESETS
from sources.domain.windows import Window

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hourly", ["02 00", "02 01", "02 02"]),
        ("daily", ["02 00", "03 00", "04 00"]),
        ("weekdays", ["02 00", "03 00", "04 00", "05 00", "06 00", "09 00"]),
        ("weekly", ["02 00", "09 00", "16 00"]),
        ("monthly", ["01 00", "01 00", "01 00"]),
    ],
)
def test_a_preset_fires_as_its_name_says(name: str, expected: list[str]) -> None:
    found = islice(Period(PRESETS[name].cron, "UTC").after(MONDAY - timedelta(seconds=1)), len(expected))
    assert [f"{at:%d %H}" for at in found] == expected


@pytest.mark.parametrize(
    ("name", "hours_of_a_week"), [("always", 168), ("working-hours", 50), ("nights", 56), ("weekends", 48)]
)
def test_a_window_preset_is_open_for_so_many_hours_a_week(name: str, hours_of_a_week: int) -> None:
    # none of them is open at 20:00 on a Monday, so none reaches out of the week
    start, end = MONDAY + timedelta(hours=20), MONDAY + timedelta(days=7, hours=20)
    openings = Window.parse(WINDOW_PRESETS[name].rows, "UTC").openings(start, end)
    open_for = sum((found.closes_at - found.opens_at for found in openings), timedelta())
    assert open_for == timedelta(hours=hours_of_a_week)
