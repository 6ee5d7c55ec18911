"""The due triggers after a second and after three days."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from schedules.models import Schedule
from schedules.watermarks import AT_ONCE, due
from tests.factories import NOON

HOUR, DAY, MINUTE, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
NINE = NOON.replace(hour=9)
LATER = NINE + 3 * DAY + HOUR
DAYS = 7 * 86_400


def found(cron: str, now: datetime, **fields: Any) -> tuple[Any, ...]:
    """The due triggers, the next watermark and the skipped ones, of a schedule that was dealt with up to before nine
    o'clock. It is daily at nine and of events, unless given otherwise."""
    values = {"name": "daily", "cron": cron, "kind": "test", "event_count": 1, "next_trigger_at": NINE}
    return tuple(vars(due(Schedule(**(values | fields)), now)).values())


@pytest.mark.parametrize("catch_up_for", [None, 0, 60, 86_400])
@pytest.mark.parametrize("late", [timedelta(0), SECOND, 60 * SECOND])
def test_a_trigger_that_is_on_time_is_due_whatever_is_caught_up(catch_up_for: int | None, late: timedelta) -> None:
    assert found("0 9 * * *", NINE + late, catch_up_for=catch_up_for) == ((NINE,), NINE + DAY, None)


@pytest.mark.parametrize(
    ("cron", "fields", "now", "expected"),
    [
        # a new schedule of events begins with its next trigger, a policy with the period that runs
        ("0 9 * * *", {"next_trigger_at": None}, NOON, ((), NINE + DAY, None)),
        ("0 9 * * *", {"next_trigger_at": None, "provider": "assignments"}, NOON, ((NINE,), NINE + DAY, None)),
        # the last trigger is due however old it is; one exactly as old as what is caught up is caught up
        ("0 9 2 3 *", {}, NINE + 90 * DAY, ((NINE,), NINE + 365 * DAY, None)),
        ("0 9 * * *", {"catch_up_for": 2 * 86_400 + 3600}, LATER,
         ((NINE + DAY, NINE + 2 * DAY, NINE + 3 * DAY), NINE + 4 * DAY, (NINE, NINE))),
        # of a minutely one a hundred are taken on; what is skipped costs no more than of a daily one
        ("* * * * *", {"catch_up_for": DAYS}, LATER,
         (tuple(NINE + minute * MINUTE for minute in range(AT_ONCE)), NINE + AT_ONCE * MINUTE, None)),
        ("* * * * *", {}, NINE + 3000 * DAY,
         ((NINE + 3000 * DAY,), NINE + 3000 * DAY + MINUTE, (NINE, NINE + 3000 * DAY - MINUTE))),
        # its cron was changed past the forms, so the watermark is no trigger
        ("0 17 * * *", {}, NOON, ((), NOON.replace(hour=17), None)),
        ("0 8 * * *", {"provider": "assignments"}, NOON, ((NOON.replace(hour=8),), NOON.replace(hour=8) + DAY, None)),
        ("30 * * * *", {"catch_up_for": 86_400}, NOON,
         (tuple(NOON.replace(hour=hour, minute=30) for hour in (9, 10, 11)), NOON.replace(minute=30), None)),
    ],
)  # fmt: skip
def test_what_is_due_and_what_is_skipped(cron: str, fields: dict[str, Any], now: datetime, expected: Any) -> None:
    assert found(cron, now, **fields) == expected
