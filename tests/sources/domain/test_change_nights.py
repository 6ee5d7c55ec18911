"""Windows in the nights and on the days on which clocks jump, case by case."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from sources.domain.windows import Opening, Window
from tests.sources.domain.zones import MISSING_MIDNIGHTS, opening_of, utc, wall, window

BERLIN = "Europe/Berlin"
SPRING, AUTUMN = ("2026-03-28", "2026-03-29"), ("2026-10-24", "2026-10-25")
MONTH = timedelta(days=30)


def hours(found: Opening) -> float:
    return (found.closes_at - found.opens_at) / timedelta(hours=1)


class TestBerlin:
    @pytest.mark.parametrize(("evening", "morning", "length"), [(*SPRING, 7), (*AUTUMN, 9)])
    def test_the_night_from_22_to_6_has_7_and_9_hours(self, evening: str, morning: str, length: int):
        found = opening_of(window(BERLIN, "22:00", "06:00"), f"{evening}T12:00")
        assert found == Opening(wall(f"{evening}T22:00", BERLIN), wall(f"{morning}T06:00", BERLIN))
        assert hours(found) == length

    @pytest.mark.parametrize(("day", "length"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
    def test_a_range_whose_start_is_its_end_lasts_as_long_as_the_day(self, day: str, length: int):
        weekday = f"{date.fromisoformat(day):%a}".lower()
        found = opening_of(window(BERLIN, "00:00", "00:00", weekday), f"{day}T12:00")
        assert found.opens_at == wall(f"{day}T00:00", BERLIN)
        assert hours(found) == length

    def test_an_end_in_the_gap_is_the_end_of_the_gap(self):
        found = opening_of(window(BERLIN, "22:00", "02:30", "sat"), "2026-03-28T22:00")
        assert found.closes_at == utc("2026-03-29T01:00")

    def test_an_end_in_the_fold_is_the_first_of_both(self):
        found = opening_of(window(BERLIN, "22:00", "02:30", "sat"), "2026-10-24T22:00")
        assert found.closes_at == utc("2026-10-25T00:30")

    def test_a_range_about_the_fold_holds_the_hour_twice(self):
        found = opening_of(window(BERLIN, "01:59", "03:00", "sun"), "2026-10-24T22:00")
        assert found.closes_at - found.opens_at == timedelta(hours=2, minutes=1)


@pytest.mark.parametrize(("zone", "day", "jumps_at"), MISSING_MIDNIGHTS)
class TestMidnightsThatDoNotExist:
    def test_a_day_of_24_hours_has_23_and_begins_with_the_jump(self, zone: str, day: date, jumps_at: str):
        found = opening_of(window(zone, "00:00", "00:00", f"{day:%a}"), f"{day}T12:00")
        assert found.opens_at == utc(jumps_at)
        assert hours(found) == 23

    def test_a_range_within_the_missing_hour_is_left_out_that_day(self, zone: str, day: date, jumps_at: str):
        missing = window(zone, "00:10", "00:50")
        start = utc(jumps_at) - timedelta(hours=12)
        days = [found.opens_at.astimezone(ZoneInfo(zone)).date() for found in missing.openings(start, start + MONTH)]
        assert day not in days
        assert len(days) == len(set(days)) >= 28


class TestApia:
    ZONE = "Pacific/Apia"

    def test_the_day_that_was_left_out_is_no_opening_and_no_hole(self):
        daily = window(self.ZONE, "09:00", "17:00")
        found = list(daily.openings(utc("2011-12-29T00:00"), utc("2011-12-31T12:00")))
        assert [f"{one.opens_at.astimezone(ZoneInfo(self.ZONE)):%m-%d}" for one in found] == ["12-28", "12-29", "12-31"]
        assert [hours(one) for one in found] == [8, 8, 8]

    def test_whole_days_before_and_after_it_are_one_opening(self):
        found = opening_of(window(self.ZONE, "00:00", "00:00", "thu-sat"), "2011-12-29T12:00")
        assert found == Opening(utc("2011-12-29T10:00"), utc("2011-12-31T10:00"))

    def test_excluding_it_excludes_nothing_else(self):
        without = Window.parse([], self.ZONE, ["2011-12-30"])
        assert opening_of(without, "2011-12-29T12:00").closes_at > utc("2012-12-01T00:00")


@pytest.mark.parametrize(
    ("zone", "start", "before", "opens_at"),
    [
        (BERLIN, "02:30", "2026-03-28T23:00", "2026-03-29T01:00"),
        ("Australia/Lord_Howe", "02:15", "2026-10-03T14:00", "2026-10-03T15:30"),  # a gap of half an hour
        ("America/Havana", "00:00", "2026-03-08T04:00", "2026-03-08T05:00"),
        ("Asia/Beirut", "00:30", "2026-03-28T20:00", "2026-03-28T22:00"),
    ],
)
def test_a_start_that_does_not_exist_is_the_first_instant_after_the_gap(zone, start, before, opens_at):
    assert opening_of(window(zone, start, "04:00"), before).opens_at == utc(opens_at)
