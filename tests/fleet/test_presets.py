"""One-click periods and windows of the form of a policy: what they fill in is what their names say."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from fleet.admin.policies import PERIODS, WINDOWS
from schedules.cron import Period
from sources.domain.windows import Window

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def test_a_period_fires_as_its_name_says() -> None:
    found = {name: islice(Period(cron, "UTC").after(MONDAY - timedelta(seconds=1)), 6) for name, _, cron in PERIODS}
    assert {name: " ".join(f"{at:%d-%H}" for at in triggers) for name, triggers in found.items()} == {
        "Hourly": "02-00 02-01 02-02 02-03 02-04 02-05",
        "Daily": "02-00 03-00 04-00 05-00 06-00 07-00",
        "Weekdays": "02-00 03-00 04-00 05-00 06-00 09-00",
        "Weekly": "02-00 09-00 16-00 23-00 30-00 06-00",
        "Monthly": "01-00 01-00 01-00 01-00 01-00 01-00",
    }


def test_a_window_is_open_for_so_many_hours_a_week() -> None:
    # none of them is open at 20:00 on a Monday, so none reaches out of the week
    start, end = MONDAY + timedelta(hours=20), MONDAY + timedelta(days=7, hours=20)

    def hours(rows: Any) -> float:
        openings = Window.parse(rows, "UTC").openings(start, end)
        return sum((found.closes_at - found.opens_at) / timedelta(hours=1) for found in openings)

    found = {name: hours(rows) for name, _, rows in WINDOWS}
    assert found == {"Always": 168, "Working hours": 50, "Nights": 56, "Weekends": 48}
