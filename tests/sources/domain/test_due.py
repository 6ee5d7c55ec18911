"""The next-backup date and its day."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.cron import Period
from sources.domain.due import due_day, next_backup_at
from tests.sources.domain.zones import utc

DAILY = Period("0 9 * * *", "UTC")
BERLIN = "Europe/Berlin"

instants = st.integers(0, 10**9).map(lambda seconds: utc("2005-01-01T00:00") + timedelta(seconds=seconds))
periods = st.builds(
    Period, st.sampled_from(["0 9 * * *", "0 * * * *", "30 2 * * 1-5", "0 0 1 * *"]), st.sampled_from(["UTC", BERLIN])
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
