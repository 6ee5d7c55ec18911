"""The next-backup date and its day; from when on an assignment is overdue, and until when."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.cron import Period
from sources.domain.due import due_day, next_backup_at
from sources.domain.overdue import thresholds
from sources.domain.windows import Window
from tests.sources.domain.zones import utc

DAILY = Period("0 9 * * *", "UTC")
BERLIN = "Europe/Berlin"

instants = st.integers(0, 10**9).map(lambda seconds: utc("2005-01-01T00:00") + timedelta(seconds=seconds))
periods = st.builds(
    Period,
    st.sampled_from(["0 9 * * *", "0 * * * *", "30 2 * * *", "30 2 * * 1-5", "0 0 1 * *"]),
    st.sampled_from(["UTC", BERLIN, "America/Havana"]),
)


class TestTheNextBackupDate:
    @pytest.mark.parametrize(
        ("started_at", "now", "due"),
        [
            ("2026-03-02T09:00", "2026-03-03T12:00", "2026-03-03T09:00"),
            ("2026-03-03T08:59", "2026-03-03T12:00", "2026-03-03T09:00"),
            # a clock that was wrong, and one that stepped back over a trigger
            ("2033-01-01T00:00", "2026-03-02T12:00", "2026-03-03T09:00"),
            ("2026-03-02T09:05", "2026-03-02T08:55", "2026-03-02T09:00"),
        ],
    )
    def test_it_is_the_first_trigger_after_the_period_in_which_the_backup_started(
        self, started_at: str, now: str, due: str
    ):
        assert next_backup_at(DAILY, utc(started_at), utc(now)) == utc(due)

    @given(periods, instants, st.integers(0, 10**8))
    def test_however_late_backups_start_nothing_drifts(self, period: Period, started_at: datetime, seconds: int):
        now = started_at + timedelta(seconds=seconds)
        assert next_backup_at(period, started_at, now) == next_backup_at(period, period.current(started_at), now)

    @given(periods, instants, instants)
    def test_it_is_never_later_than_the_next_trigger(self, period: Period, started_at: datetime, now: datetime):
        assert next_backup_at(period, started_at, now) <= period.next_after(now)


class TestTheDayBucket:
    def test_it_is_the_local_date_in_the_zone_of_the_policy(self):
        late = utc("2026-03-02T23:30")
        assert due_day(late, "UTC") == date(2026, 3, 2)
        assert due_day(late, BERLIN) == date(2026, 3, 3)
        assert due_day(late, "America/Havana") == date(2026, 3, 2)
        assert due_day(utc("2011-12-30T10:00"), "Pacific/Apia") == date(2011, 12, 31)


WEEKDAYS = Period("0 9 * * 1-5", "UTC")
MICROSECOND = timedelta(microseconds=1)
NOW = utc("2026-03-10T12:00")


@pytest.mark.parametrize(
    ("period", "alert_after", "now", "first_in_time", "first_that_clears"),
    [
        # a whole period was missed when the trigger after the next-backup date has passed, too
        (DAILY, None, NOW, utc("2026-03-09T09:00"), utc("2026-03-10T09:00")),
        (DAILY, None, utc("2026-03-10T08:59"), utc("2026-03-08T09:00"), utc("2026-03-09T09:00")),
        (WEEKDAYS, None, utc("2026-03-10T08:59"), utc("2026-03-06T09:00"), utc("2026-03-09T09:00")),
        (WEEKDAYS, None, utc("2026-03-10T09:00"), utc("2026-03-09T09:00"), utc("2026-03-10T09:00")),
        (DAILY, 36_000, NOW, utc("2026-03-10T02:00") + MICROSECOND, utc("2026-03-10T04:00") + MICROSECOND),
    ],
)
def test_what_counts_from_before_is_overdue_and_what_clears_it_is_nearer(
    period: Period, alert_after: float | None, now: datetime, first_in_time: datetime, first_that_clears: datetime
) -> None:
    found = thresholds(period, alert_after, now)
    assert found.raise_before == first_in_time
    assert found.clear_after == first_that_clears - MICROSECOND


WEEKDAY_NIGHTS = Window.parse([{"days": "mon-fri", "start": "22:00", "end": "06:00"}], "UTC")
NIGHTS = Window.parse([{"start": "22:00", "end": "06:00"}], "UTC")
EASTER = Window.parse([], "UTC", [{"holidays": "DE"}])
HOURLY = Period("0 * * * *", "UTC")


@pytest.mark.parametrize(
    ("period", "window", "now", "first_in_time", "first_that_clears"),
    [
        # Friday's night is the last chance until Monday's
        (DAILY, WEEKDAY_NIGHTS, utc("2026-03-08T12:00"), utc("2026-03-06T09:00"), utc("2026-03-06T09:00")),
        (DAILY, WEEKDAY_NIGHTS, utc("2026-03-09T12:00"), utc("2026-03-06T09:00"), utc("2026-03-09T09:00")),
        (DAILY, WEEKDAY_NIGHTS, utc("2026-03-10T12:00"), utc("2026-03-09T09:00"), utc("2026-03-10T09:00")),
        # Good Friday, the weekend between, Easter Monday; the period of Thursday's trigger ends on Friday
        (DAILY, EASTER, utc("2026-04-06T12:00"), utc("2026-04-05T09:00"), utc("2026-04-06T09:00")),
        (HOURLY, NIGHTS, utc("2026-03-09T12:30"), utc("2026-03-09T05:00"), utc("2026-03-09T05:00")),
        (HOURLY, Window.parse([], "UTC", ["2026-02-20..2026-03-09"]), NOW, utc("2026-03-10T11:00"), NOW),
    ],
)
def test_a_period_in_which_the_window_never_opens_is_none_that_was_missed(
    period: Period, window: Window, now: datetime, first_in_time: datetime, first_that_clears: datetime
) -> None:
    found = thresholds(period, None, now, window)
    assert (found.raise_before, found.clear_after + MICROSECOND) == (first_in_time, first_that_clears)


minutes = st.integers(0, 10**6).map(lambda minutes: utc("2025-01-01T00:00") + timedelta(minutes=minutes))
limits = st.none() | st.integers(1, 10**7).map(float)


@given(periods, minutes, minutes)
def test_without_a_limit_they_say_what_the_triggers_say(period: Period, started_at: datetime, now: datetime) -> None:
    started_at, now = sorted((started_at, now))
    due, found = period.next_after(started_at), thresholds(period, None, now)
    assert (started_at < found.raise_before) == (period.next_after(due) <= now)
    assert (started_at > found.clear_after) == (now < due)


@given(periods, limits, minutes)
def test_what_has_just_been_cleared_is_not_raised(period: Period, limit: float | None, now: datetime) -> None:
    found = thresholds(period, limit, now)
    assert found.raise_before <= found.clear_after + MICROSECOND
