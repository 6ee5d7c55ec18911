"""Windows in zones whose clocks jump: half-open, counted from the weekday of their start."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sources.domain.windows import DAYS, Opening, Range, Window


def window(zone: str, start: str, end: str, days: str = "mon-sun") -> Window:
    return Window.parse([{"days": days, "start": start, "end": end}], zone)


def opening(window: Window, now: datetime) -> Opening:
    found = window.current_or_next(now)
    assert found is not None
    return found


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def hours(found: Opening) -> float:
    return (found.closes_at - found.opens_at) / timedelta(hours=1)


def test_a_window_without_ranges_is_always_open() -> None:
    assert Window.parse([], "UTC").current_or_next(utc(2026, 3, 2)) is None


def test_a_window_is_open_at_its_start_and_closed_at_its_end() -> None:
    office = window("UTC", "09:00", "17:00")
    today = Opening(utc(2026, 3, 2, 9), utc(2026, 3, 2, 17))
    second = timedelta(seconds=1)
    assert opening(office, today.opens_at - second) == today
    assert opening(office, today.opens_at) == today
    assert opening(office, today.closes_at - second) == today
    assert opening(office, today.closes_at) == Opening(utc(2026, 3, 3, 9), utc(2026, 3, 3, 17))


def test_a_range_belongs_to_the_weekday_of_its_start() -> None:
    friday_night = window("UTC", "22:00", "06:00", "fri")
    assert opening(friday_night, utc(2026, 3, 7, 5)) == Opening(utc(2026, 3, 6, 22), utc(2026, 3, 7, 6))
    assert opening(friday_night, utc(2026, 3, 6, 5)).opens_at == utc(2026, 3, 6, 22)


def test_equal_start_and_end_are_a_day() -> None:
    assert opening(window("UTC", "09:00", "09:00", "wed"), utc(2026, 3, 2)) == Opening(
        utc(2026, 3, 4, 9), utc(2026, 3, 5, 9)
    )


def test_days_wrap_from_saturday_to_monday() -> None:
    long_weekend = window("UTC", "08:00", "20:00", "sat-mon")
    assert long_weekend.ranges[0].days == {5, 6, 0}
    assert opening(long_weekend, utc(2026, 3, 3)).opens_at == utc(2026, 3, 7, 8)


def test_ranges_that_touch_or_overlap_are_one_opening() -> None:
    rows = [
        {"days": "mon", "start": "18:00", "end": "00:00"},
        {"days": "tue", "start": "00:00", "end": "06:00"},
        {"days": "tue", "start": "05:00", "end": "07:00"},
        {"days": "tue", "start": "06:00", "end": "06:30"},
        {"days": "tue", "start": "08:00", "end": "09:00"},
    ]
    found = opening(Window.parse(rows, "UTC"), utc(2026, 3, 2, 19))
    assert found == Opening(utc(2026, 3, 2, 18), utc(2026, 3, 3, 7))


@pytest.mark.parametrize(
    ("evening", "length"), [(date(2026, 3, 27), 8), (date(2026, 3, 28), 7), (date(2026, 10, 24), 9)]
)
def test_a_night_is_shorter_or_longer_when_the_clocks_change(evening: date, length: int) -> None:
    nights = window("Europe/Berlin", "22:00", "06:00")
    dusk = datetime.combine(evening, time(22), ZoneInfo("Europe/Berlin")).astimezone(UTC)
    found = opening(nights, dusk)
    assert found.opens_at == dusk
    assert hours(found) == length


@pytest.mark.parametrize(
    ("zone", "start", "before", "opens_at"),
    [
        ("Europe/Berlin", "02:30", utc(2026, 3, 28, 23), utc(2026, 3, 29, 1)),
        ("Australia/Lord_Howe", "02:15", utc(2026, 10, 3, 14), utc(2026, 10, 3, 15, 30)),
        ("America/Havana", "00:00", utc(2026, 3, 8, 4), utc(2026, 3, 8, 5)),
        ("Asia/Beirut", "00:30", utc(2026, 3, 28, 20), utc(2026, 3, 28, 22)),
    ],
)
def test_a_start_that_does_not_exist_is_the_first_instant_after_the_gap(
    zone: str, start: str, before: datetime, opens_at: datetime
) -> None:
    assert opening(window(zone, start, "04:00"), before).opens_at == opens_at


@pytest.mark.parametrize(
    ("zone", "start", "before", "opens_at"),
    [
        ("Europe/Berlin", "02:30", utc(2026, 10, 24, 23), utc(2026, 10, 25, 0, 30)),
        ("Australia/Lord_Howe", "01:45", utc(2026, 4, 4, 14), utc(2026, 4, 4, 14, 45)),
    ],
)
def test_a_start_that_exists_twice_is_the_first_of_both(
    zone: str, start: str, before: datetime, opens_at: datetime
) -> None:
    found = opening(window(zone, start, "04:00"), before)
    assert found.opens_at == opens_at
    # at its second occurrence the same opening goes on
    assert opening(window(zone, start, "04:00"), opens_at + timedelta(hours=1)) == found


def test_a_range_that_lies_in_a_gap_is_no_opening() -> None:
    found = opening(window("Europe/Berlin", "02:10", "02:50", "sun"), utc(2026, 3, 28, 23))
    assert found.opens_at == utc(2026, 4, 5, 0, 10)


def test_a_day_that_the_zone_skipped_has_no_opening() -> None:
    fridays = window("Pacific/Apia", "09:00", "17:00", "fri")
    missing = datetime(2011, 12, 30, 9, tzinfo=UTC)
    assert opening(fridays, missing).opens_at.astimezone(ZoneInfo("Pacific/Apia")).date() == date(2012, 1, 6)


def test_a_night_into_a_day_that_the_zone_skipped_ends_with_the_gap() -> None:
    thursdays = window("Pacific/Apia", "22:00", "06:00", "thu")
    assert opening(thursdays, utc(2011, 12, 30, 9)) == Opening(utc(2011, 12, 30, 8), utc(2011, 12, 30, 10))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("mon-fri", "list of ranges"),
        (["mon-fri"], "range 1 is not an object"),
        ([{"start": "09:00", "end": "17:00"}, {"start": "9"}], "range 2: 'end' is missing"),
        ([{"start": "09:00", "end": "17:00", "zone": "UTC"}], "range 1: unknown field 'zone'"),
        ([{"start": "25:00", "end": "17:00"}], "range 1, start: '25:00' is not a time of day"),
        ([{"start": "09:00", "end": "5pm"}], "range 1, end: '5pm'"),
        ([{"start": "09:00", "end": None}], "range 1, end: None"),
        ([{"days": "weekdays", "start": "09:00", "end": "17:00"}], "range 1, days: 'weekdays'"),
        ([{"days": "", "start": "09:00", "end": "17:00"}], "range 1, days: ''"),
        ([{"days": "mon-", "start": "09:00", "end": "17:00"}], "range 1, days: 'mon-'"),
    ],
)
def test_what_is_wrong_with_a_window_is_said_with_row_and_field(rows: Any, said: str) -> None:
    with pytest.raises(ValueError, match="range") as caught:
        Window.parse(rows, "UTC")
    assert said in str(caught.value)


quarters = st.integers(0, 95).map(lambda number: time(number // 4, number % 4 * 15))
ranges = st.builds(Range, st.frozensets(st.integers(0, 6), min_size=1, max_size=4), quarters, quarters)
windows = st.builds(Window, st.lists(ranges, min_size=1, max_size=4).map(tuple), st.just("Europe/Berlin")).filter(
    lambda window: not window.always_open
)
minutes_of_2026 = st.integers(0, 365 * 24 * 60 - 1).map(lambda number: utc(2026, 1, 1) + timedelta(minutes=number))


def is_open(window: Window, instant: datetime) -> bool:
    """The same question asked of the wall clock, which knows no openings."""
    wall = instant.astimezone(ZoneInfo(window.zone))
    day, clock = wall.weekday(), wall.time()
    return any(
        (day in span.days and span.start <= clock and (span.end <= span.start or clock < span.end))
        or ((day - 1) % 7 in span.days and span.end <= span.start and clock < span.end)
        for span in window.ranges
    )


@settings(max_examples=300)
@given(windows, minutes_of_2026)
def test_a_window_is_open_when_the_wall_clock_says_so(window: Window, now: datetime) -> None:
    wall = now.astimezone(ZoneInfo("Europe/Berlin"))
    if wall.date() == date(2026, 10, 25) and wall.hour == 2:
        return  # shown twice by the wall clock
    found = opening(window, now)
    assert (found.opens_at <= now) == is_open(window, now)
    assert now < found.closes_at


@settings(max_examples=100)
@given(windows, minutes_of_2026)
def test_nothing_open_is_passed_over_before_the_next_opening(window: Window, now: datetime) -> None:
    found = opening(window, now)
    step = timedelta(minutes=15)
    waited = [now + number * step for number in range(max(0, (found.opens_at - now) // step))]
    assert not any(is_open(window, instant) for instant in waited if not shown_twice(instant))


def shown_twice(instant: datetime) -> bool:
    return utc(2026, 10, 25) <= instant < utc(2026, 10, 25, 2)


def test_the_days_are_named_as_people_write_them() -> None:
    mixed = window("UTC", "00:00", "12:00", "Mon, wed-fri")
    assert {DAYS[day] for day in mixed.ranges[0].days} == {"mon", "wed", "thu", "fri"}
