"""The openings of a window: compared with a scan of the wall clock, on days on which it jumps; and how its
rows are read."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sources.domain.excluded_dates import ExcludedDates
from sources.domain.windows import DAYS, Opening, Range, Window
from tests.sources.domain.zones import CHANGES, utc, window

STEP = timedelta(minutes=15)
"""Every end of a range below, and every jump of a clock except St John's (00:01), is at a quarter of an hour."""

DAY = timedelta(days=1)
ALL_DAYS = frozenset(range(7))
MONDAYS = frozenset({0})


def scanned(window: Window, start: datetime, end: datetime) -> list[datetime]:
    """The instants of [start, end), a step apart, at which the window is open by the wall clock alone.

    A range has begun once the clock has shown its start or a later time, and is over once it has shown its end: so a
    clock that jumps over both opens nothing, and one that is set back opens nothing twice.
    """
    zone = ZoneInfo(window.zone)
    furthest = datetime.min  # noqa: DTZ901
    found = []
    instant = start - 3 * DAY
    while instant < end:
        furthest = max(furthest, instant.astimezone(zone).replace(tzinfo=None, fold=0))
        if instant >= start and any(_holds(span, furthest, window.excluded) for span in window.ranges):
            found.append(instant)
        instant += STEP
    return found


def _holds(span: Range, shown: datetime, excluded: ExcludedDates) -> bool:
    for day in (shown.date() - DAY, shown.date()):
        begins = datetime.combine(day, span.start)
        ends = datetime.combine(day if span.end > span.start else day + DAY, span.end)
        if day.weekday() in span.days and day not in excluded and begins <= shown < ends:
            return True
    return False


quarters = st.integers(0, 95).map(lambda number: time(number // 4, number % 4 * 15))
few_days = st.frozensets(st.integers(0, 6), min_size=1, max_size=7)
some_ranges = st.lists(st.builds(Range, few_days, quarters, quarters), min_size=1, max_size=4).map(tuple)


@st.composite
def windows_at_changes(draw: st.DrawFn) -> tuple[Window, datetime]:
    """A window in a zone whose clocks jump, and the midnight (UTC) of the day of the jump."""
    zone, day = draw(st.sampled_from([change for change in CHANGES if change[0] != "America/St_Johns"]))
    offsets = draw(st.frozensets(st.integers(-3, 3), max_size=2))
    excluded = tuple((day + offset * DAY, day + offset * DAY) for offset in sorted(offsets))
    window = Window(draw(some_ranges), zone, ExcludedDates(excluded))
    return window, datetime.combine(day, time(0), UTC)


class TestAgainstAScanOfTheWallClock:
    @settings(max_examples=30)
    @given(windows_at_changes())
    def test_openings_cover_exactly_what_the_wall_clock_says_in_order_and_never_touch(
        self, given: tuple[Window, datetime]
    ):
        window, midnight = given
        start, end = midnight - 2 * DAY, midnight + 2 * DAY
        openings = list(window.openings(start, end))
        covered = [
            start + number * STEP
            for number in range((end - start) // STEP)
            if any(found.opens_at <= start + number * STEP < found.closes_at for found in openings)
        ]
        assert covered == scanned(window, start, end)
        assert all(former.closes_at < latter.opens_at for former, latter in pairwise(openings))
        assert all(found.closes_at > start and found.opens_at < end for found in openings)

    @settings(max_examples=20)
    @given(windows_at_changes(), st.integers(-3 * 1440, 3 * 1440))
    def test_the_current_or_next_one_is_the_first_from_now_on(self, given: tuple[Window, datetime], minutes: int):
        window, midnight = given
        now = midnight + timedelta(minutes=minutes)
        if not window.always_open:
            assert window.current_or_next(now) == next(window.openings(now, now + 30 * DAY))

    @settings(max_examples=20)
    @given(windows_at_changes(), st.integers(-3 * 1440, 3 * 1440))
    def test_an_opening_is_the_same_whenever_one_asks_within_it(self, given: tuple[Window, datetime], minutes: int):
        window, midnight = given
        if window.always_open:
            return
        found = window.current_or_next(midnight + timedelta(minutes=minutes))
        assert found is not None
        length = found.closes_at - found.opens_at
        if length > timedelta(days=365):
            return  # a single excluded date of a window that else never closes: told in parts
        asked = [found.opens_at, found.opens_at + length / 3, found.closes_at - timedelta(microseconds=1)]
        assert [window.current_or_next(now) for now in asked] == [found] * 3


class TestWindowsThatNeverClose:
    @settings(max_examples=20)
    @given(some_ranges)
    @example((Range(ALL_DAYS, time(0), time(0)),))
    @example((Range(ALL_DAYS, time(6), time(6)),))
    @example((Range(frozenset({0, 1, 2, 3, 4, 5}), time(0), time(0)), Range(frozenset({6}), time(0), time(23, 45))))
    @example((Range(ALL_DAYS, time(0), time(12, 30)), Range(ALL_DAYS, time(12, 30), time(0))))
    @example(
        (
            Range(MONDAYS, time(0), time(0, 15)),
            Range(MONDAYS, time(0, 30), time(0)),
            Range(ALL_DAYS, time(0, 30), time(0, 30)),
        )
    )
    @example((Range(ALL_DAYS, time(20), time(8)), Range(ALL_DAYS, time(7, 45), time(20, 15))))
    def test_ranges_that_leave_no_minute_of_the_week_out_are_always_open(self, ranges: tuple[Range, ...]):
        window = Window(ranges, "UTC")
        start = utc("2026-03-02T00:00")
        leaves_nothing_out = len(scanned(window, start, start + 7 * DAY)) == 7 * DAY // STEP
        assert window.always_open == leaves_nothing_out
        assert (window.current_or_next(start) is None) == leaves_nothing_out

    @pytest.mark.parametrize("rows", [[], [{"start": "00:00", "end": "00:00"}]])
    def test_their_one_opening_is_as_long_as_one_asks(self, rows: list[dict[str, str]]):
        start, end = utc("2026-03-28T12:00"), utc("2030-03-30T12:00")
        assert list(Window.parse(rows, "Europe/Berlin").openings(start, end)) == [Opening(start, end)]

    def test_one_that_excludes_a_date_of_long_ago_is_told_in_parts_without_a_hole(self):
        window = Window.parse([], "UTC", ["2010-01-01"])
        start, end = utc("2026-03-28T12:00"), utc("2036-03-28T12:00")
        openings = list(window.openings(start, end))
        assert openings[0].opens_at <= start
        assert openings[-1].closes_at >= end
        assert all(former.closes_at == latter.opens_at for former, latter in pairwise(openings))
        assert len(openings) < 10


class TestBounds:
    def test_an_opening_that_ends_at_the_start_or_begins_at_the_end_is_left_out(self):
        office = Window.parse([{"start": "09:00", "end": "17:00"}], "UTC")
        found = list(office.openings(utc("2026-03-02T17:00"), utc("2026-03-04T09:00")))
        assert found == [Opening(utc("2026-03-03T09:00"), utc("2026-03-03T17:00"))]

    def test_openings_at_the_ends_are_told_whole(self):
        office = Window.parse([{"start": "09:00", "end": "17:00"}], "UTC")
        found = list(office.openings(utc("2026-03-02T16:59"), utc("2026-03-03T09:01")))
        assert [f"{one.opens_at:%d %H}-{one.closes_at:%H}" for one in found] == ["02 09-17", "03 09-17"]

    def test_an_unknown_zone_is_named(self):
        with pytest.raises(ValueError, match="unknown time zone 'Mars/Olympus'"):
            Window.parse([], "Mars/Olympus")


def test_the_jumps_of_the_clocks_are_where_these_tests_take_them_to_be():
    for zone, day in CHANGES:
        noon = datetime.combine(day, time(12), ZoneInfo(zone))
        assert noon.utcoffset() != datetime.combine(day - 2 * DAY, time(12), ZoneInfo(zone)).utcoffset(), (zone, day)
        assert isinstance(day, date)


@pytest.mark.parametrize(
    ("rows", "message"),
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
def test_what_is_wrong_with_a_window_is_said_with_row_and_field(rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match="range") as caught:
        Window.parse(rows, "UTC")
    assert message in str(caught.value)


def test_days_are_named_as_people_write_them_and_wrap() -> None:
    mixed, wrapped = window("UTC", "00:00", "12:00", "Mon, wed-fri"), window("UTC", "08:00", "20:00", "sat-mon")
    assert {DAYS[day] for day in mixed.ranges[0].days} == {"mon", "wed", "thu", "fri"}
    assert wrapped.ranges[0].days == {5, 6, 0}
