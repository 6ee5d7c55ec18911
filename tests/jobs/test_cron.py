"""When a period begins, in zones whose clocks jump."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from jobs.cron import Period, check_expression, check_zone
from jobs.models import Schedule

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Havana",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
]
CRONS = ["0 9 * * *", "30 2 * * *", "0 0 * * *", "*/15 * * * *", "0 * * * *", "0 22 * * 1-5", "0 0 1 * *", "0 0 29 2 *"]

periods = st.builds(Period, st.sampled_from(CRONS), st.sampled_from(ZONES))
CLOCK_CHANGES = [
    datetime.fromisoformat(f"{text}+00:00")
    for text in (
        "2026-03-29T01:00", "2026-10-25T01:00", "2026-03-08T05:00", "2026-11-01T05:00", "2026-03-28T22:00",
        "2026-10-24T21:00", "2026-10-03T15:30", "2026-04-04T15:00", "2011-12-30T10:00", "2012-02-29T00:00",
    )
]  # fmt: skip

instants = st.one_of(
    st.integers(0, 30 * 366 * 86_400).map(
        lambda seconds: datetime(2005, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    ),
    st.builds(
        lambda change, minutes: change + timedelta(minutes=minutes),
        st.sampled_from(CLOCK_CHANGES),
        st.integers(-36 * 60, 36 * 60),
    ),
)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def triggers(cron: str, zone: str, after: str, count: int) -> list[str]:
    """The next `count` triggers after a UTC instant, as UTC text to the minute."""
    return [f"{found:%Y-%m-%d %H:%M}" for found in islice(Period(cron, zone).after(utc(after)), count)]


class TestClockChanges:
    def test_a_time_that_does_not_exist_fires_at_the_first_instant_that_does(self):
        # Berlin skips 02:00 to 03:00 on 29 March 2026
        assert triggers("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 3) == [
            "2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30",
        ]  # fmt: skip

    def test_a_time_that_exists_twice_fires_once(self):
        # Berlin has 02:00 to 03:00 twice on 25 October 2026
        assert triggers("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
            "2026-10-25 00:30",
            "2026-10-26 01:30",
        ]

    @pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
    def test_a_day_of_hourly_triggers_has_as_many_as_it_has_hours(self, day, hours):
        begins = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
        ends = (
            (datetime.fromisoformat(day) + timedelta(days=1)).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
        )
        found = list(islice(Period("0 * * * *", "Europe/Berlin").after(begins - timedelta(seconds=1)), 30))
        assert sum(begins <= trigger < ends for trigger in found) == hours

    @pytest.mark.parametrize(
        ("zone", "before", "expected"),
        [
            ("America/Havana", "2026-03-07T06:00", "2026-03-08 05:00"),  # midnight becomes 01:00
            ("Asia/Beirut", "2026-03-28T00:00", "2026-03-28 22:00"),
        ],
    )
    def test_a_midnight_that_does_not_exist_fires_an_hour_later_by_the_wall(self, zone, before, expected):
        assert triggers("0 0 * * *", zone, before, 1) == [expected]

    def test_lord_howe_moves_its_clock_by_half_an_hour(self):
        # 02:00 becomes 02:30 on 4 October 2026
        assert triggers("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", 2) == [
            "2026-10-03 15:30", "2026-10-04 15:15",
        ]  # fmt: skip

    def test_the_day_that_apia_left_out_fires_at_the_first_instant_after_it(self):
        # 29 December 2011 at -10 is followed by 31 December at +14, so the 30th's trigger is at the 31st's midnight
        assert triggers("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00", 3) == [
            "2011-12-29 19:00", "2011-12-30 10:00", "2011-12-30 19:00",
        ]  # fmt: skip


class TestPeriods:
    @given(periods, instants)
    def test_the_current_one_began_at_a_trigger_after_which_none_has_come(self, period, instant):
        began = period.current(instant)
        assert began <= instant < period.next_after(began)

    @given(periods, instants)
    def test_the_next_one_is_later_and_becomes_the_current_one(self, period, instant):
        following = period.next_after(instant)
        assert following > instant
        assert following.tzinfo is UTC
        assert period.current(following) == following
        assert period.current(following - timedelta(microseconds=1)) <= instant

    @given(periods, instants, st.sampled_from(ZONES))
    def test_it_does_not_matter_in_which_zone_an_instant_is_told(self, period, instant, zone):
        assert period.next_after(instant.astimezone(ZoneInfo(zone))) == period.next_after(instant)

    @given(periods, instants)
    def test_triggers_only_ever_get_later(self, period, instant):
        found = list(islice(period.after(instant), 5))
        assert found == sorted(set(found))

    def test_a_trigger_belongs_to_the_period_that_it_begins(self):
        period = Period("0 9 * * *", "UTC")
        assert period.current(utc("2026-03-02T09:00")) == utc("2026-03-02T09:00")
        assert period.next_after(utc("2026-03-02T09:00")) == utc("2026-03-03T09:00")
        assert period.current(utc("2026-03-02T08:59:59.999999")) == utc("2026-03-01T09:00")


class TestBadInput:
    @pytest.mark.parametrize(
        ("expression", "said"),
        [
            ("0 0 30 2 *", "30 2"),
            ("0 0 31 4 *", "31 4"),
            ("61 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("0 9 * *", "has 4 fields, not 5"),
            ("0 0 9 * * *", "has 6 fields, not 5"),
            ("", "has 0 fields, not 5"),
            ("@daily", "has 1 fields, not 5"),
            ("a b c d e", "minute"),
        ],
    )
    def test_a_bad_expression_is_named_with_what_is_wrong(self, expression, said):
        with pytest.raises(ValueError, match=said):
            check_expression(expression)

    @pytest.mark.parametrize("expression", CRONS)
    def test_a_good_one_passes(self, expression):
        check_expression(expression)

    @pytest.mark.parametrize("zone", ["Mars/Olympus", "", "CET+1", "../etc/passwd", "Europe"])
    def test_an_unknown_zone_is_named(self, zone):
        with pytest.raises(ValueError, match="unknown time zone"):
            check_zone(zone)

    @pytest.mark.parametrize(
        ("field", "value"),
        [("cron", "0 0 30 2 *"), ("zone", "Mars/Olympus"), ("priority", 100_001), ("priority", -(2**31))],
    )
    def test_a_schedule_names_the_field(self, field, value):
        schedule = Schedule(**{"name": "s", "cron": "0 9 * * *", "zone": "UTC", field: value})
        with pytest.raises(ValidationError) as caught:
            schedule.clean()
        assert list(caught.value.message_dict) == [field]
