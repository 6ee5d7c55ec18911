"""Never, protected, due, overdue; and an alert that does not come and go."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.cron import Period
from sources.domain.alerts import AlertFacts, AlertState, overdue_since, state, thresholds
from sources.domain.due import next_backup_at
from tests.sources.domain.zones import utc

DAILY = Period("0 9 * * *", "UTC")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
LONG_AGO = utc("2025-01-01T00:00")


def backed_up(started_at: datetime, since: datetime | None = None, period: Period = DAILY) -> AlertFacts:
    return AlertFacts(LONG_AGO, started_at, next_backup_at(period, started_at, started_at), since)


class TestStates:
    STARTED = utc("2026-03-02T10:00")

    @pytest.mark.parametrize(
        ("now", "expected"),
        [
            ("2026-03-02T10:00", AlertState.PROTECTED),
            ("2026-03-03T08:59:59.999999", AlertState.PROTECTED),
            ("2026-03-03T09:00", AlertState.DUE),
            ("2026-03-04T08:59:59.999999", AlertState.DUE),
            ("2026-03-04T09:00", AlertState.OVERDUE),
        ],
    )
    def test_without_a_limit_overdue_begins_when_a_whole_period_was_missed(self, now: str, expected: AlertState):
        assert state(backed_up(self.STARTED), DAILY, None, utc(now)) == expected

    @pytest.mark.parametrize(
        ("age", "expected"),
        [
            (2 * HOUR - MICROSECOND, AlertState.PROTECTED),
            (2 * HOUR, AlertState.OVERDUE),
            (40 * HOUR, AlertState.OVERDUE),
        ],
    )
    def test_with_a_limit_overdue_begins_when_the_last_success_is_as_old_as_that(
        self, age: timedelta, expected: AlertState
    ):
        assert state(backed_up(self.STARTED), DAILY, 7200, self.STARTED + age) == expected

    def test_what_was_never_backed_up_stays_never_however_long(self):
        facts = AlertFacts(utc("2026-03-02T10:00"))
        for now in ("2026-03-02T10:00", "2026-03-05T10:00", "2036-03-02T10:00"):
            assert state(facts, DAILY, None, utc(now)) == AlertState.NEVER
            assert state(facts, DAILY, 60, utc(now)) == AlertState.NEVER


class TestWhenAnAlertBegins:
    @pytest.mark.parametrize(
        ("now", "raised"),
        [("2026-03-03T09:00", False), ("2026-03-04T08:59:59.999999", False), ("2026-03-04T09:00", True)],
    )
    def test_never_backed_up_it_is_raised_at_the_second_trigger_after_the_insertion(self, now: str, raised: bool):
        facts = AlertFacts(utc("2026-03-02T10:00"))
        assert overdue_since(facts, DAILY, None, utc(now)) == (utc(now) if raised else None)

    def test_never_backed_up_it_is_raised_when_the_insertion_is_as_old_as_the_limit(self):
        inserted_at = utc("2026-03-02T10:00")
        facts = AlertFacts(inserted_at)
        assert overdue_since(facts, DAILY, 3600, inserted_at + HOUR - MICROSECOND) is None
        assert overdue_since(facts, DAILY, 3600, inserted_at + HOUR) == inserted_at + HOUR

    def test_a_last_backup_in_the_future_does_not_silence_it_for_years(self):
        # its next-backup date was computed when the clock was right again
        facts = AlertFacts(LONG_AGO, utc("2033-01-01T00:00"), utc("2026-03-03T09:00"))
        assert state(facts, DAILY, None, utc("2026-03-03T08:00")) == AlertState.PROTECTED
        assert state(facts, DAILY, None, utc("2026-03-03T10:00")) == AlertState.DUE
        assert overdue_since(facts, DAILY, None, utc("2026-03-05T10:00")) is not None
        assert overdue_since(facts, DAILY, 3600, utc("2026-03-03T10:00")) is not None

    def test_a_period_of_several_days_is_counted_in_periods_and_not_in_days(self):
        weekdays = Period("0 9 * * 1-5", "UTC")
        friday = backed_up(utc("2026-03-06T10:00"), period=weekdays)
        assert overdue_since(friday, weekdays, None, utc("2026-03-10T08:59")) is None
        assert overdue_since(friday, weekdays, None, utc("2026-03-10T09:00")) is not None


class TestWhenAnAlertEnds:
    BEGAN = utc("2026-03-01T00:00")
    NOW = utc("2026-03-10T12:00")

    def test_without_a_limit_it_ends_when_the_assignment_is_protected_again(self):
        today, yesterday = utc("2026-03-10T09:00"), utc("2026-03-10T08:59:59.999999")
        assert overdue_since(backed_up(today, self.BEGAN), DAILY, None, self.NOW) is None
        assert overdue_since(backed_up(yesterday, self.BEGAN), DAILY, None, self.NOW) == self.BEGAN

    @pytest.mark.parametrize(
        ("age", "over"), [(8 * HOUR - MICROSECOND, True), (8 * HOUR, False), (9.9 * HOUR, False), (11 * HOUR, False)]
    )
    def test_with_a_limit_it_ends_at_a_success_younger_than_four_fifths_of_it(self, age: timedelta, over: bool):
        facts = backed_up(self.NOW - age, self.BEGAN)
        assert overdue_since(facts, DAILY, 36_000, self.NOW) == (None if over else self.BEGAN)

    def test_it_does_not_end_without_a_success(self):
        assert overdue_since(AlertFacts(self.NOW, overdue_since=self.BEGAN), DAILY, 10**9, self.NOW) == self.BEGAN
        assert overdue_since(AlertFacts(self.NOW, overdue_since=self.BEGAN), DAILY, None, self.NOW) == self.BEGAN


instants = st.integers(0, 10**6).map(lambda minutes: utc("2025-01-01T00:00") + timedelta(minutes=minutes))
periods = st.builds(
    Period,
    st.sampled_from(["0 9 * * *", "0 * * * *", "30 2 * * *", "0 0 1 * *", "0 9 * * 1-5"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Havana"]),
)
limits = st.none() | st.integers(1, 10**7).map(float)


class TestThresholds:
    """What one statement over all assignments does with them is what the rule says of each."""

    @given(periods, instants, instants)
    def test_without_a_limit_they_say_what_the_triggers_say(self, period: Period, started_at: datetime, now: datetime):
        if started_at > now:
            started_at, now = now, started_at
        due = period.next_after(started_at)
        facts = AlertFacts(LONG_AGO, started_at, due)
        assert (overdue_since(facts, period, None, now) is not None) == (period.next_after(due) <= now)
        alerted = AlertFacts(LONG_AGO, started_at, due, LONG_AGO)
        assert (overdue_since(alerted, period, None, now) is None) == (now < due)

    @given(periods, limits, instants)
    def test_what_has_just_been_cleared_is_not_raised(self, period: Period, limit: float | None, now: datetime):
        found = thresholds(period, limit, now)
        assert found.raise_before <= found.clear_after + MICROSECOND
