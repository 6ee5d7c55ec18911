"""When a period begins where clocks jump: no trigger is dropped, none is doubled."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.cron import Period, instant_of
from tests.schedules.calendars import CLOCK_CHANGES, ZONES, periods, triggers, utc


class TestClockChanges:
    def test_a_time_that_does_not_exist_fires_at_the_first_instant_that_does(self):
        # Berlin skips 02:00 to 03:00 on 29 March 2026
        assert triggers("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 3) == [
            "2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30",
        ]  # fmt: skip

    def test_a_time_that_exists_twice_fires_once(self):
        # Berlin has 02:00 to 03:00 twice on 25 October 2026
        assert triggers("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
            "2026-10-25 00:30",
            "2026-10-26 01:30",
        ]

    @pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
    def test_a_day_of_hourly_triggers_has_as_many_as_it_has_hours(self, day, hours):
        begins = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
        ends = (
            (datetime.fromisoformat(day) + timedelta(days=1)).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
        )
        found = list(islice(Period("0 * * * *", "Europe/Berlin").after(begins - timedelta(seconds=1)), 30))
        assert sum(begins <= trigger < ends for trigger in found) == hours

    @pytest.mark.parametrize(
        ("zone", "before", "expected"),
        [
            ("America/Havana", "2026-03-07T06:00", "2026-03-08 05:00"),  # midnight becomes 01:00
            ("Asia/Beirut", "2026-03-28T00:00", "2026-03-28 22:00"),
        ],
    )
    def test_a_midnight_that_does_not_exist_fires_an_hour_later_by_the_wall(self, zone, before, expected):
        assert triggers("0 0 * * *", zone, before, 1) == [expected]

    def test_lord_howe_moves_its_clock_by_half_an_hour(self):
        # 02:00 becomes 02:30 on 4 October 2026
        assert triggers("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", 2) == [
            "2026-10-03 15:30", "2026-10-04 15:15",
        ]  # fmt: skip

    def test_the_day_that_apia_left_out_fires_at_the_first_instant_after_it(self):
        # 29 December 2011 at -10 is followed by 31 December at +14, so the 30th's trigger is at the 31st's midnight
        assert triggers("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", 3) == [
            "2011-12-29 19:00", "2011-12-30 10:00", "2011-12-30 19:00",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("zone", "before", "expected"),
        [
            ("Africa/Cairo", "2024-04-24T12:00", ["2024-04-24 22:00", "2024-04-25 22:00", "2024-04-26 21:00"]),
            ("Asia/Beirut", "2022-03-25T12:00", ["2022-03-25 22:00", "2022-03-26 22:00", "2022-03-27 21:00"]),
            ("America/Havana", "2024-03-09T00:00", ["2024-03-09 05:00", "2024-03-10 05:00", "2024-03-11 04:00"]),
            ("America/Santiago", "2023-09-02T00:00", ["2023-09-02 04:00", "2023-09-03 04:00", "2023-09-04 03:00"]),
        ],
    )
    @pytest.mark.parametrize("cron", ["0 0 * * *", "0 0 * * 0-6", "*/60 0 * * *"])
    def test_a_day_without_midnight_has_its_trigger_once_when_it_begins(self, cron, zone, before, expected):
        assert triggers(cron, zone, before, 3) == expected

    @pytest.mark.parametrize(
        ("zone", "day", "begins"),
        [
            ("Africa/Cairo", "2024-04-26", "2024-04-25 22:00"),
            ("Asia/Beirut", "2022-03-27", "2022-03-26 22:00"),
            ("America/Havana", "2024-03-10", "2024-03-10 05:00"),
            ("America/Santiago", "2023-09-03", "2023-09-03 04:00"),
        ],
    )
    def test_steps_within_a_missing_midnight_hour_are_one_trigger_and_not_none(self, zone, day, begins):
        before = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=UTC) - timedelta(hours=12)
        found = list(islice(Period("*/15 0 * * *", zone).after(before), 2))
        assert f"{found[0]:%Y-%m-%d %H:%M}" == begins
        assert found[1].astimezone(ZoneInfo(zone)).strftime("%H:%M") == "00:00"
        assert found[1] - found[0] == timedelta(hours=23)

    def test_every_second_hour_loses_none_in_a_gap_and_doubles_none_in_a_fold(self):
        assert triggers("0 */2 * * *", "Europe/Berlin", "2026-03-28T22:00", 3) == [
            "2026-03-28 23:00", "2026-03-29 01:00", "2026-03-29 02:00",
        ]  # fmt: skip
        assert triggers("0 */2 * * *", "Europe/Berlin", "2026-10-24T21:00", 3) == [
            "2026-10-24 22:00", "2026-10-25 00:00", "2026-10-25 03:00",
        ]  # fmt: skip

    @pytest.mark.parametrize("hours", ["*", "0-23", "*/1"])
    def test_an_hour_that_comes_twice_fires_twice_when_all_hours_are_named(self, hours):
        assert triggers(f"0,30 {hours} * * *", "Europe/Berlin", "2026-10-24T23:45", 5) == [
            "2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2026-10-25 02:00",
        ]  # fmt: skip

    def test_what_lies_between_its_two_times_is_found_from_the_middle_of_either(self):
        period = Period("0,30 * * * *", "Europe/Berlin")
        assert period.next_after(utc("2026-10-25T00:45")) == utc("2026-10-25T01:00")
        assert period.next_after(utc("2026-10-25T01:10")) == utc("2026-10-25T01:30")
        assert period.current(utc("2026-10-25T01:10")) == utc("2026-10-25T01:00")
        assert period.current(utc("2026-10-25T00:50")) == utc("2026-10-25T00:30")

    @pytest.mark.parametrize(
        ("after", "expected"),
        [
            ("2026-10-03T13:45", ["2026-10-03 14:30", "2026-10-03 15:30", "2026-10-03 16:00"]),  # 02:00 becomes 02:30
            ("2026-04-04T13:30", ["2026-04-04 14:00", "2026-04-04 15:30", "2026-04-04 16:30"]),  # 02:00 becomes 01:30
        ],
    )
    def test_each_full_hour_by_the_clock_of_lord_howe_fires(self, after, expected):
        assert triggers("0 * * * *", "Australia/Lord_Howe", after, 3) == expected

    def test_steps_after_the_jump_of_lord_howe_begin_with_the_hour(self):
        for after, first in (("2026-10-03T06:00", "2026-10-03 16:00"), ("2026-04-04T06:00", "2026-04-04 16:30")):
            found = triggers("*/10 3 * * *", "Australia/Lord_Howe", after, 7)
            assert found[0] == first
            assert {at[:10] for at in found[:6]} == {first[:10]}

    def test_a_midnight_that_comes_twice_by_a_clock_set_back_over_it_fires_once(self):
        # Havana goes back from 01:00 to 00:00 on 1 November 2026
        assert triggers("0 0 * * *", "America/Havana", "2026-10-31T12:00", 2) == [
            "2026-11-01 04:00",
            "2026-11-02 05:00",
        ]


class TestAgainstAScanOfTheWallClock:
    """What is due at a time on the wall fires when the clock first shows that time or a later one."""

    @settings(max_examples=60)
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
