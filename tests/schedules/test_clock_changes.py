"""The beginnings of periods where clocks jump: no trigger is dropped, none is doubled."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.cron import Period, instant_of
from tests.schedules.calendars import CLOCK_CHANGES, ZONES, periods, triggers, utc

BERLIN, LORD_HOWE = "Europe/Berlin", "Australia/Lord_Howe"
"""Berlin skips 02:00 to 03:00 on 29 March 2026 and has it twice on 25 October; Lord Howe moves by half an hour."""

JUMPS = {
    "a time that does not exist fires at the first instant that does": (
        "30 2 * * *", BERLIN, "2026-03-28T00:00", ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"],
    ),
    "a time that exists twice fires once": (
        "30 2 * * *", BERLIN, "2026-10-24T12:00", ["2026-10-25 00:30", "2026-10-26 01:30"],
    ),
    "a midnight that comes twice fires once": (
        "0 0 * * *", "America/Havana", "2026-10-31T12:00", ["2026-11-01 04:00", "2026-11-02 05:00"],
    ),
    "a jump of half an hour": (
        "15 2 * * *", LORD_HOWE, "2026-10-03T00:00", ["2026-10-03 15:30", "2026-10-04 15:15"],
    ),
    "a day that was left out fires at the first instant after it": (
        # 29 December 2011 at -10 is followed by 31 December at +14
        "0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", ["2011-12-29 19:00", "2011-12-30 10:00", "2011-12-30 19:00"],
    ),
    "every second hour in a gap": (
        "0 */2 * * *", BERLIN, "2026-03-28T22:00", ["2026-03-28 23:00", "2026-03-29 01:00", "2026-03-29 02:00"],
    ),
    "every second hour in a fold": (
        "0 */2 * * *", BERLIN, "2026-10-24T21:00", ["2026-10-24 22:00", "2026-10-25 00:00", "2026-10-25 03:00"],
    ),
    "each hour when 02:00 becomes 02:30": (
        "0 * * * *", LORD_HOWE, "2026-10-03T13:45", ["2026-10-03 14:30", "2026-10-03 15:30", "2026-10-03 16:00"],
    ),
    "each hour when 02:00 becomes 01:30": (
        "0 * * * *", LORD_HOWE, "2026-04-04T13:30", ["2026-04-04 14:00", "2026-04-04 15:30", "2026-04-04 16:30"],
    ),
}  # fmt: skip
WITHOUT_MIDNIGHT = [
    ("Africa/Cairo", "2024-04-24T12:00", ["2024-04-24 22:00", "2024-04-25 22:00", "2024-04-26 21:00"]),
    ("Asia/Beirut", "2022-03-25T12:00", ["2022-03-25 22:00", "2022-03-26 22:00", "2022-03-27 21:00"]),
    ("America/Havana", "2024-03-09T00:00", ["2024-03-09 05:00", "2024-03-10 05:00", "2024-03-11 04:00"]),
    ("America/Santiago", "2023-09-02T00:00", ["2023-09-02 04:00", "2023-09-03 04:00", "2023-09-04 03:00"]),
]
"""The second day of each begins at 01:00."""


@pytest.mark.parametrize(("cron", "zone", "before", "expected"), JUMPS.values(), ids=JUMPS)
def test_a_trigger_about_a_jump(cron, zone, before, expected):
    assert triggers(cron, zone, before, len(expected)) == expected


@pytest.mark.parametrize(("zone", "before", "expected"), WITHOUT_MIDNIGHT)
def test_a_day_without_midnight_has_its_trigger_once_when_it_begins(zone, before, expected):
    for cron in ("0 0 * * *", "0 0 * * 0-6", "*/60 0 * * *"):
        assert triggers(cron, zone, before, 3) == expected
    steps = list(islice(Period("*/15 0 * * *", zone).after(utc(expected[1]) - timedelta(seconds=1)), 2))
    assert f"{steps[0]:%Y-%m-%d %H:%M}" == expected[1]
    assert steps[1] - steps[0] == timedelta(hours=23)


@pytest.mark.parametrize("hours", ["*", "0-23", "*/1"])
def test_an_hour_that_comes_twice_fires_twice_when_all_hours_are_named(hours):
    assert triggers(f"0,30 {hours} * * *", BERLIN, "2026-10-24T23:45", 5) == [
        "2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2026-10-25 02:00",
    ]  # fmt: skip
    period = Period(f"0,30 {hours} * * *", BERLIN)
    assert period.next_after(utc("2026-10-25T01:10")) == utc("2026-10-25T01:30")
    assert period.current(utc("2026-10-25T00:50")) == utc("2026-10-25T00:30")
    assert period.current(utc("2026-10-25T01:10")) == utc("2026-10-25T01:00")


class TestAgainstAScanOfTheWallClock:
    """A trigger that is due at a local time fires when the clock first shows that time or a later one."""

    @given(periods, st.sampled_from(CLOCK_CHANGES), st.integers(-12, 12))
    def test_no_trigger_is_dropped_or_doubled_about_a_jump_of_the_clock(self, period, change, hours):
        start = change + timedelta(hours=hours - 12)
        ends = start + timedelta(hours=24)
        found = list(takewhile(lambda trigger: trigger < ends, period.after(start - FIVE_MINUTES)))
        assert found == scanned(period, start, ends)


FIVE_MINUTES = timedelta(minutes=5)
"""Every expression of CRONS, and every jump of a clock of ZONES, keeps to it."""


def scanned(period: Period, start: datetime, ends: datetime) -> list[datetime]:
    """The triggers in [start, ends) by the wall clock alone; cron is only asked whether a time on the wall is due."""
    all_hours = period.expression.split()[1] in ("*", "0-23")
    furthest = wall_clock(start - timedelta(hours=6), period)
    instant, found = start - timedelta(hours=6), []
    while instant < ends:
        shown = wall_clock(instant, period)
        if shown > furthest:
            steps = (shown - furthest) // FIVE_MINUTES
            fires = any(is_due(furthest + number * FIVE_MINUTES, period) for number in range(1, steps + 1))
            furthest = shown
        else:
            fires = all_hours and is_due(shown, period)
        if fires and instant >= start:
            found.append(instant)
        instant += FIVE_MINUTES
    return found


def wall_clock(instant: datetime, period: Period) -> datetime:
    return instant.astimezone(period.tzinfo).replace(tzinfo=None, fold=0)


def is_due(shown: datetime, period: Period) -> bool:
    in_utc = shown.replace(tzinfo=UTC)
    return Period(period.expression, "UTC").next_after(in_utc - timedelta(seconds=1)) == in_utc


class TestWallClock:
    """`instant_of` against a scan: the first instant at which the clock has shown that time or a later one."""

    @given(st.sampled_from(ZONES), st.data())
    def test_a_time_on_the_wall_is_the_first_instant_that_shows_it_or_a_later_one(self, zone, data):
        tz = ZoneInfo(zone)
        around = data.draw(st.sampled_from(CLOCK_CHANGES)).replace(tzinfo=None)
        wall = around + timedelta(minutes=data.draw(st.integers(-15 * 60, 30 * 60)))
        found = instant_of(wall, tz)
        minute = timedelta(minutes=1)
        earlier = [found - number * minute for number in range(1, 26 * 60)]
        assert found.astimezone(tz).replace(tzinfo=None) >= wall
        assert all(instant.astimezone(tz).replace(tzinfo=None) < wall for instant in earlier)
