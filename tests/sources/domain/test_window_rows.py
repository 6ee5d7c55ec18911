"""How the rows of a window are read, and the zones whose gaps are no whole hours."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sources.domain.windows import DAYS, Opening, Window
from tests.sources.domain.zones import window


def opening(window: Window, now: datetime) -> Opening:
    found = window.current_or_next(now)
    assert found is not None
    return found


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


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
