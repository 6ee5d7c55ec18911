"""Which triggers are due after a second, after three days, and when clocks change."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.models import Schedule
from schedules.watermarks import AT_ONCE, due
from tests.factories import NOON

HOUR, DAY, MINUTE, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
NINE = NOON.replace(hour=9)


def schedule(cron: str = "0 9 * * *", **fields: object) -> Schedule:
    """Unsaved. Daily at nine, of events, dealt with up to before nine o'clock."""
    values = {"name": "daily", "cron": cron, "kind": "test", "event_count": 1, "next_trigger_at": NINE}
    return Schedule(**(values | fields))


class TestOnTime:
    @pytest.mark.parametrize("catch_up_for", [None, 0, 60, 86_400])
    @pytest.mark.parametrize("late", [timedelta(0), SECOND, 60 * SECOND])
    def test_a_trigger_is_due_whatever_is_made_up_for(self, catch_up_for, late):
        found = due(schedule(catch_up_for=catch_up_for), NINE + late)
        assert (found.triggers, found.next_trigger_at, found.skipped) == ((NINE,), NINE + DAY, None)


class TestANewSchedule:
    def test_of_events_begins_with_its_next_trigger(self):
        found = due(schedule(next_trigger_at=None), NOON)
        assert (found.triggers, found.next_trigger_at) == ((), NINE + DAY)

    def test_that_is_a_policy_begins_with_the_period_that_runs(self):
        found = due(schedule(next_trigger_at=None, provider="assignments"), NOON)
        assert (found.triggers, found.next_trigger_at) == ((NINE,), NINE + DAY)


class TestAfterThreeDaysDown:
    NOW = NINE + 3 * DAY + HOUR

    def test_however_old_it_is(self):
        found = due(schedule("0 9 2 3 *"), NINE + 90 * DAY)
        assert (found.triggers, found.skipped) == ((NINE,), None)

    def test_the_one_exactly_as_old_as_that_is_among_them(self):
        found = due(schedule(catch_up_for=2 * 86_400 + 3600), self.NOW)
        assert found.triggers[0] == NINE + DAY

    def test_of_a_minutely_one_a_hundred_are_taken_on_and_the_watermark_stands_at_the_next(self):
        found = due(schedule("* * * * *", catch_up_for=7 * 86_400), self.NOW)
        assert found.triggers == tuple(NINE + timedelta(minutes=minute) for minute in range(AT_ONCE))
        assert found.next_trigger_at == NINE + timedelta(minutes=AT_ONCE)

    def test_what_is_passed_over_of_a_minutely_one_costs_no_more_than_of_a_daily_one(self):
        assert due(schedule("* * * * *"), NINE + 3000 * DAY).skipped == (NINE, NINE + 3000 * DAY - MINUTE)


class TestAWatermarkThatIsNoTrigger:
    """Its cron was changed past the forms."""

    def test_yields_nothing_until_the_first_trigger_of_the_new_cron(self):
        found = due(schedule("0 17 * * *"), NOON)
        assert (found.triggers, found.next_trigger_at, found.skipped) == ((), NOON.replace(hour=17), None)

    def test_yields_the_period_that_runs_of_a_policy_which_then_emits_what_is_not_there_yet(self):
        found = due(schedule("0 8 * * *", provider="assignments"), NOON)
        assert (found.triggers, found.skipped) == ((NOON.replace(hour=8),), None)

    def test_yields_what_lies_between_it_and_now(self):
        found = due(schedule("30 * * * *", catch_up_for=86_400), NOON)
        assert [trigger_at.hour for trigger_at in found.triggers] == [9, 10, 11]


class TestClocksThatChangeInBerlin:
    """At 02:30 each day. Forward on 2026-03-29 at 02:00 local time, back on 2026-10-25 at 03:00."""

    SETTINGS = {"cron": "30 2 * * *", "zone": "Europe/Berlin", "catch_up_for": 7 * 86_400}

    def test_a_trigger_in_the_gap_comes_at_its_end(self):
        watermark = datetime(2026, 3, 28, 1, 30, tzinfo=UTC)
        found = due(schedule(**self.SETTINGS, next_trigger_at=watermark), datetime(2026, 3, 30, 12, tzinfo=UTC))
        assert [f"{trigger_at:%d %H:%M}" for trigger_at in found.triggers] == ["28 01:30", "29 01:00", "30 00:30"]

    def test_a_trigger_in_the_fold_comes_once(self):
        watermark = datetime(2026, 10, 24, 0, 30, tzinfo=UTC)
        found = due(schedule(**self.SETTINGS, next_trigger_at=watermark), datetime(2026, 10, 26, 12, tzinfo=UTC))
        assert [f"{trigger_at:%d %H:%M}" for trigger_at in found.triggers] == ["24 00:30", "25 00:30", "26 01:30"]
        assert found.next_trigger_at == datetime(2026, 10, 27, 1, 30, tzinfo=UTC)
