"""The coming periods with their openings, and whether period and window meet."""

from datetime import timedelta

import pytest

from schedules.cron import Period
from sources.domain.preview import check_period_meets_window, coming_periods
from sources.domain.windows import Opening, Window
from tests.sources.domain.zones import utc, wall

BERLIN = "Europe/Berlin"
DAILY = Period("0 9 * * *", "UTC")
OFFICE = Window.parse([{"days": "mon-fri", "start": "08:00", "end": "18:00"}], "UTC")
ALWAYS = Window.parse([], "UTC")
MONDAY = utc("2026-03-02T00:00")


class TestComingPeriods:
    def test_they_follow_each_other_from_the_first_trigger_on_which_may_be_the_very_start(self):
        nine = utc("2026-03-02T09:00")
        found = coming_periods(DAILY, ALWAYS, nine, 3)
        assert [one.begins_at for one in found] == [utc(f"2026-03-0{day}T09:00") for day in (2, 3, 4)]
        assert [one.ends_at for one in found] == [utc(f"2026-03-0{day}T09:00") for day in (3, 4, 5)]
        assert coming_periods(DAILY, ALWAYS, nine + timedelta(microseconds=1), 2) == found[1:]

    def test_openings_are_cut_at_the_ends_of_the_period(self):
        [found] = coming_periods(DAILY, OFFICE, MONDAY, 1)
        assert found.openings == (
            Opening(utc("2026-03-02T09:00"), utc("2026-03-02T18:00")),
            Opening(utc("2026-03-03T08:00"), utc("2026-03-03T09:00")),
        )
        assert found.warning == ""

    def test_one_opening_over_several_periods_is_in_each(self):
        weekend = Window.parse([{"days": "sat-sun", "start": "00:00", "end": "00:00"}], "UTC")
        found = coming_periods(Period("0 */12 * * *", "UTC"), weekend, utc("2026-03-07T00:00"), 5)
        assert [len(one.openings) for one in found] == [1, 1, 1, 1, 0]
        assert all(one.openings == (Opening(one.begins_at, one.ends_at),) for one in found[:4])

    def test_one_without_an_opening_says_when_the_next_one_comes_by_the_local_clock(self):
        office = Window.parse([{"days": "mon-fri", "start": "08:00", "end": "18:00"}], BERLIN)
        saturday = coming_periods(Period("0 0 * * *", BERLIN), office, wall("2026-03-07T00:00", BERLIN), 1)[0]
        assert saturday.openings == ()
        assert saturday.warning == "the window is closed throughout; the next opening is at 2026-03-09 08:00"


class TestPeriodsThatMeetTheWindow:
    def test_a_warning_counts_the_coming_periods_without_an_opening_and_names_the_first(self):
        assert check_period_meets_window(Period("0 0 * * *", "UTC"), OFFICE, MONDAY) == [
            "2 of the next 10 periods have no opening, as the one that begins 2026-03-07 00:00 UTC: "
            "backups will be rarer than the cron says"
        ]
        [none] = check_period_meets_window(Period("*/5 * * * *", "UTC"), OFFICE, MONDAY)
        assert none.startswith("10 of the next 10 periods have no opening"), "it opens later"

    def test_a_window_without_any_opening_is_refused(self):
        never = Window.parse([{"start": "08:00", "end": "18:00"}], "UTC", ["2026-01-01..2040-01-01"])
        with pytest.raises(ValueError, match="the window has no opening within two years"):
            check_period_meets_window(DAILY, never, MONDAY)

    def test_a_yearly_period_is_not_refused_for_a_window_that_opens_before_it(self):
        assert check_period_meets_window(Period("0 0 29 2 *", "UTC"), OFFICE, MONDAY) == []
