"""The coming periods with their openings, and whether period and window meet."""

from datetime import date, datetime, timedelta

import pytest

from schedules.cron import Period
from sources.domain.days import stretches
from sources.domain.overdue import thresholds
from sources.domain.preview import MOST_OPENINGS, check_period_meets_window, coming_periods
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
            "2 of the next 10 periods have no opening, as the one that begins 2026-03-07 00:00 UTC: backups "
            "will be rarer than its cron expression"
        ]
        [none] = check_period_meets_window(Period("*/5 * * * *", "UTC"), OFFICE, MONDAY)
        assert none.startswith("10 of the next 10 periods have no opening"), "it opens later"

    def test_a_window_without_any_opening_is_refused(self):
        never = Window.parse([{"start": "08:00", "end": "18:00"}], "UTC", ["2026-01-01..2040-01-01"])
        with pytest.raises(ValueError, match="the window has no opening within two years"):
            check_period_meets_window(DAILY, never, MONDAY)

    def test_a_yearly_period_is_not_refused_for_a_window_that_opens_before_it(self):
        assert check_period_meets_window(Period("0 0 29 2 *", "UTC"), OFFICE, MONDAY) == []


RANGES = [
    {"start": f"{number // 30:02}:{number % 30 * 2:02}", "end": f"{number // 30:02}:{number % 30 * 2 + 1:02}"}
    for number in range(200)
]
"""As many as a policy takes."""
LEAP_DAYS = Period("0 0 29 2 *", "UTC")


class TestPeriodsOfYearsInWhichAWindowOpensAThousandTimesAWeek:
    window = Window.parse(RANGES, "UTC")

    @pytest.fixture
    def looks(self, monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
        """The instants from which openings are looked for."""
        looked, look = list[datetime](), Window._from

        def _from(window: Window, now: datetime) -> tuple[Opening, ...]:
            looked.append(now)
            return look(window, now)

        monkeypatch.setattr(Window, "_from", _from)
        return looked

    def test_each_opening_is_a_step_at_which_a_preview_may_end_and_there_are_not_any_number(self) -> None:
        steps = list[int]()
        with pytest.raises(ValueError, match="1 periods have more than 10,000 openings"):
            coming_periods(LEAP_DAYS, self.window, MONDAY, 1, lambda: steps.append(1))
        assert len(steps) == MOST_OPENINGS + 2

    def test_a_policy_is_saved_after_a_look_at_the_first_opening_of_each(self, looks: list[datetime]) -> None:
        assert check_period_meets_window(LEAP_DAYS, self.window, MONDAY) == []
        assert len(looks) < 30

    def test_the_last_opening_is_found_without_those_before_it(self, looks: list[datetime]) -> None:
        begins, ends = utc("2024-02-29T00:00"), utc("2028-02-29T00:00")
        last = self.window.last_opening(begins, ends)
        assert last == Opening(utc("2028-02-28T06:38"), utc("2028-02-28T06:39"))
        stretches(LEAP_DAYS, self.window, date(2026, 1, 1), date(2026, 3, 31))
        thresholds(LEAP_DAYS, None, MONDAY, self.window)
        assert len(looks) < 300


@pytest.mark.parametrize("excluded", [[], ["2026-03-01..2026-04-20"], ["2026-01-01..2027-01-01"]])
@pytest.mark.parametrize("rows", [[], RANGES[:3], [{"days": "sun", "start": "22:00", "end": "04:00"}]])
def test_the_last_opening_is_that_of_all(rows: list[dict[str, str]], excluded: list[str]) -> None:
    window = Window.parse(rows, BERLIN, excluded)
    for days in (0.1, 1, 2, 3, 30, 60, 400):
        start, end = MONDAY, MONDAY + timedelta(days=days)
        last, every = window.last_opening(start, end), list(window.openings(start, end))
        assert (last and min(last.closes_at, end)) == (min(every[-1].closes_at, end) if every else None)
