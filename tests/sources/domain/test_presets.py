"""One-click periods and windows."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from schedules.cron import Period, check_expression
from sources.domain.presets import PRESETS, WINDOW_PRESETS
from sources.domain.windows import Window

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def test_the_periods_that_most_people_want_are_there() -> None:
    assert list(PRESETS) == ["hourly", "daily", "weekdays", "weekly", "monthly"]
    assert list(WINDOW_PRESETS) == ["always", "working-hours", "nights", "weekends"]


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
    check_expression(PRESETS[name].cron)
    found = islice(Period(PRESETS[name].cron, "UTC").after(MONDAY - timedelta(seconds=1)), len(expected))
    assert [f"{at:%d %H}" for at in found] == expected


@pytest.mark.parametrize(
    ("name", "hours_of_a_week"), [("always", 168), ("working-hours", 50), ("nights", 56), ("weekends", 48)]
)
def test_a_window_preset_is_open_for_so_many_hours_a_week(name: str, hours_of_a_week: int) -> None:
    # none of them is open at 20:00 on a Monday, so none is told with what lies outside of the week
    start, end = MONDAY + timedelta(hours=20), MONDAY + timedelta(days=7, hours=20)
    openings = list(Window.parse(WINDOW_PRESETS[name].rows, "UTC").openings(start, end))
    assert sum((found.closes_at - found.opens_at for found in openings), timedelta()) / timedelta(hours=1) == (
        hours_of_a_week
    )
    assert all(former.closes_at < latter.opens_at for former, latter in pairwise(openings))


def test_rows_that_a_caller_changes_change_no_preset() -> None:
    WINDOW_PRESETS["nights"].rows.append({"start": "x", "end": "y"})
    WINDOW_PRESETS["nights"].rows[0]["start"] = "x"
    assert WINDOW_PRESETS["nights"].rows == [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


@pytest.mark.parametrize("presets", [PRESETS, WINDOW_PRESETS])
def test_each_is_found_under_its_own_name_and_has_a_title(presets: dict[str, object]) -> None:
    for name, preset in presets.items():
        assert preset.name == name  # type: ignore[attr-defined]
        assert preset.title  # type: ignore[attr-defined]
