"""Dates on which no range of a window begins."""

from datetime import date
from typing import Any

import pytest

from sources.domain.excluded_dates import ExcludedDates
from sources.domain.public_holidays import holidays_of
from sources.domain.windows import Opening, Window
from tests.sources.domain.zones import opening_of, utc, wall

NIGHTS = [{"start": "22:00", "end": "06:00"}]
BERLIN = "Europe/Berlin"
BAVARIA = {"holidays": "DE", "subdivision": "BY"}


@pytest.mark.parametrize(
    ("entry", "excluded", "others"),
    [
        ("2026-12-24", ["2026-12-24"], ["2027-12-24", "2026-12-25"]),
        ("12-25", ["1999-12-25", "2026-12-25", "2100-12-25"], ["2026-12-24"]),
        ("02-29", ["2024-02-29", "2028-02-29"], ["2027-02-28", "2027-03-01"]),
        ("2026-12-27..2027-01-02", ["2026-12-27", "2027-01-01", "2027-01-02"], ["2026-12-26", "2027-01-03"]),
        ("2026-12-27..2026-12-27", ["2026-12-27"], ["2026-12-28"]),
    ],
)
def test_which_dates_are_excluded(entry: str, excluded: list[str], others: list[str]) -> None:
    found = ExcludedDates.parse([entry])
    assert all(date.fromisoformat(day) in found for day in excluded)
    assert not any(date.fromisoformat(day) in found for day in others)


class TestBadEntries:
    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ("2026-12-24", "excluded dates are a list"),
            (["2026-12-24", "24.12.2026"], "excluded date 2: '24.12.2026' is not a date"),
            (["02-30"], "excluded date 1: '02-30' does not exist"),
            (["2026-12-01..2026-12-32"], "excluded date 1: '2026-12-32' does not exist"),
            (["2026-12-31..2026-12-27"], "excluded date 1: '2026-12-31..2026-12-27' ends before it begins"),
            (["12-24..12-26"], "excluded date 1: '12-24..12-26' is not a date"),
            (["2026-12-24..2026-12-25..2026-12-26"], "is not a date"),
            (["12-24\n"], "is not a date"),
            (["٢٠٢٦-١٢-٢٤"], "is not a date"),
            (["0000-12-24"], "does not exist"),
            ([20261224], "excluded date 1: 20261224 is not a date"),
            ([["2026-12-24"]], "is not a date"),
        ],
    )
    def test_the_wrong_entry_is_named_with_what_is_right(self, entries: Any, message: str):
        with pytest.raises(ValueError, match="excluded date") as caught:
            ExcludedDates.parse(entries)
        assert message in str(caught.value)
        assert "12-25 (each year)" in str(caught.value) or "earlier date first" in str(caught.value)

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ({"holidays": "de"}, "'de' is not the code of a country; did you mean DE (Germany)?"),
            ({"holidays": "Germnay"}, "'Germnay' is not the code of a country; did you mean DE (Germany) or GG"),
            ({"holidays": "XXXXXX"}, "write its letters by ISO 3166, such as"),
            ({"holidays": "HolidayBase"}, "is not the code of a country"),
            ({"holidays": "DE", "subdivision": "Bayren"}, "DE has no subdivision 'Bayren'; it has Bayern"),
            ({"holidays": "DE", "subdivision": "XX"}, "it has BB, BE, BW, BY"),
            ({"holidays": "SM", "subdivision": "XX"}, "SM has no subdivision 'XX'; it has none"),
            ({"holidays": "DE", "region": "BY"}, 'holidays are written as {"holidays": "DE"}'),
            ({"subdivision": "BY"}, "holidays are written as"),
            ({"holidays": ["DE"]}, "holidays are written as"),
        ],
    )
    def test_of_holidays_the_country_is_named_with_its_near_ones(self, entry: Any, message: str):
        with pytest.raises(ValueError, match="excluded date 2: ") as caught:
            ExcludedDates.parse(["12-25", entry])
        assert message in str(caught.value)


def test_the_holidays_of_a_country_are_those_of_each_year_and_of_a_subdivision_its_own_too(monkeypatch) -> None:
    holidays_of.cache_clear()
    monkeypatch.setenv("LANGUAGE", "de")  # whatever the language of the process
    country, part = (ExcludedDates.parse([entry]) for entry in ({"holidays": "DE"}, BAVARIA))
    easter_mondays, epiphanies = [date(2026, 4, 6), date(2027, 3, 29)], [date(2026, 1, 6), date(2040, 1, 6)]
    assert all(day in country and day in part for day in easter_mondays)
    assert all(day in part and day not in country for day in epiphanies)
    assert list(part.holidays(date(2026, 12, 25), date(2027, 1, 6))) == [
        (date(2026, 12, 25), "Christmas Day"), (date(2026, 12, 26), "Second Day of Christmas"),
        (date(2027, 1, 1), "New Year's Day"), (date(2027, 1, 6), "Epiphany"),
    ]  # fmt: skip


class TestAWindowWithExcludedDates:
    def test_no_range_begins_on_a_holiday(self):
        window = Window.parse(NIGHTS, BERLIN, [BAVARIA])
        assert opening_of(window, "2027-01-06T12:00").opens_at == utc("2027-01-07T21:00")
        assert opening_of(Window.parse(NIGHTS, BERLIN, [{"holidays": "DE"}]), "2027-01-06T12:00").opens_at == utc(
            "2027-01-06T21:00"
        )

    def test_no_range_begins_on_an_excluded_date(self):
        window = Window.parse(NIGHTS, BERLIN, ["2026-12-24"])
        assert opening_of(window, "2026-12-24T12:00") == Opening(utc("2026-12-25T21:00"), utc("2026-12-26T05:00"))

    def test_a_range_that_began_the_evening_before_goes_on_into_it(self):
        window = Window.parse(NIGHTS, BERLIN, ["2026-12-24"])
        assert opening_of(window, "2026-12-24T03:00") == Opening(utc("2026-12-23T21:00"), utc("2026-12-24T05:00"))

    def test_without_ranges_it_is_closed_from_midnight_to_midnight_by_the_local_clock(self):
        window = Window.parse([], BERLIN, ["2026-07-01"])
        before, after = utc("2026-06-30T22:00"), utc("2026-07-01T22:00")
        assert opening_of(window, "2026-06-30T21:59").closes_at == before
        assert opening_of(window, "2026-06-30T22:00").opens_at == after
        assert opening_of(window, "2026-07-01T21:59").opens_at == after
        assert opening_of(window, "2026-07-01T22:00").opens_at == after

    def test_a_yearly_date_parts_the_years_into_openings(self):
        window = Window.parse([], "UTC", ["12-25"])
        assert opening_of(window, "2026-06-01T00:00") == Opening(utc("2025-12-26T00:00"), utc("2026-12-25T00:00"))
        assert opening_of(window, "2026-12-25T12:00") == Opening(utc("2026-12-26T00:00"), utc("2027-12-25T00:00"))

    def test_the_opening_after_excluded_weeks_is_found(self):
        window = Window.parse(NIGHTS, BERLIN, ["2026-07-01..2028-06-15"])
        assert opening_of(window, "2026-07-05T00:00") == Opening(
            wall("2028-06-16T22:00", BERLIN), wall("2028-06-17T06:00", BERLIN)
        )

    def test_it_opens_again_at_the_end_of_two_years_but_not_later(self):
        two_years = Window.parse([], "UTC", ["2026-01-01..2027-12-31"])
        assert opening_of(two_years, "2026-01-01T00:00").opens_at == utc("2028-01-01T00:00")
        with pytest.raises(ValueError, match="the window has no opening within two years"):
            Window.parse([], "UTC", ["2026-01-01..2028-01-05"]).current_or_next(utc("2026-01-01T00:00"))

    def test_only_what_begins_on_the_dates_left_over_opens(self):
        every_day = [f"{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 30)]
        window = Window.parse(NIGHTS, BERLIN, [*every_day, *(f"{m:02}-30" for m in (1, *range(3, 13)))])
        assert opening_of(window, "2026-02-01T12:00").opens_at == utc("2026-03-31T20:00")
        closed = Window.parse([{"days": "mon", "start": "09:00", "end": "17:00"}], BERLIN, ["2026-01-01..2040-01-01"])
        with pytest.raises(ValueError, match="no opening"):
            closed.current_or_next(utc("2026-02-01T00:00"))
        assert list(closed.openings(utc("2026-02-01T00:00"), utc("2026-03-01T00:00"))) == []

    def test_an_excluded_date_whose_midnight_does_not_exist_ends_the_opening_with_the_gap(self):
        window = Window.parse([], "America/Havana", ["2024-03-10"])
        assert opening_of(window, "2024-03-09T12:00").closes_at == utc("2024-03-10T05:00")
        assert opening_of(window, "2024-03-10T05:00").opens_at == utc("2024-03-11T04:00")
