"""The beginnings of periods in zones whose clocks jump."""

import re
from collections import deque
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.cron import NAMES, Period, check_expression, check_zone, from_fields
from schedules.cron_doubts import check_steps, doubts
from tests.schedules.calendars import CRONS, ZONES, instants, periods, triggers, utc


def refusal(expression: str) -> str | None:
    """The error of an expression."""
    try:
        check_expression(expression)
    except ValueError as error:
        return str(error)
    return None


class TestDatesThatNotEveryMonthHas:
    def test_the_31st_comes_in_seven_months(self):
        assert triggers("0 9 31 * *", "UTC", "2026-01-01T00:00", 8) == [
            f"{date} 09:00"
            for date in (
                "2026-01-31", "2026-03-31", "2026-05-31", "2026-07-31", "2026-08-31", "2026-10-31", "2026-12-31",
                "2027-01-31",
            )
        ]  # fmt: skip

    def test_the_29th_of_february_comes_in_leap_years_and_2100_is_none(self):
        assert triggers("0 0 29 2 *", "UTC", "2026-01-01T00:00", 2) == ["2028-02-29 00:00", "2032-02-29 00:00"]
        assert triggers("0 0 29 2 *", "UTC", "2097-01-01T00:00", 1) == ["2104-02-29 00:00"]

    def test_the_last_day_of_the_month_comes_in_each(self):
        assert triggers("0 9 L * *", "UTC", "2028-01-31T09:00", 2) == ["2028-02-29 09:00", "2028-03-31 09:00"]


class TestPeriods:
    @given(periods, instants, st.sampled_from(ZONES))
    def test_follow_each_other_without_a_gap_in_whichever_zone_an_instant_is_given(self, period, instant, zone):
        began, found = period.current(instant), list(islice(period.after(instant), 5))
        assert began <= instant < found[0] == period.next_after(began)
        assert found == sorted(set(found))
        assert found[0].tzinfo is UTC
        assert period.next_after(instant.astimezone(ZoneInfo(zone))) == found[0]
        assert period.current(found[0]) == found[0]
        assert period.current(found[0] - timedelta(microseconds=1)) == began

    def test_a_trigger_belongs_to_the_period_that_it_begins(self):
        period = Period("0 9 * * *", "UTC")
        assert period.current(utc("2026-03-02T09:00")) == utc("2026-03-02T09:00")
        assert period.next_after(utc("2026-03-02T09:00")) == utc("2026-03-03T09:00")
        assert period.current(utc("2026-03-02T08:59:59.999999")) == utc("2026-03-01T09:00")


class TestBadInput:
    @pytest.mark.parametrize(
        ("expression", "error"),
        [
            ("0 0 30 2 *", "'0 0 30 2 \\*' never fires: no such date exists"),
            ("0 0 31 4 *", "'0 0 31 4 \\*' never fires: no such date exists"),
            ("0 0 31 feb,jun *", "never fires: no such date exists"),
            ("61 * * * *", "'61' is not a valid minute; use 0 to 59"),
            ("* 24 * * *", "'24' is not a valid hour; use 0 to 23"),
            ("0 9 0 * *", "'0' is not a valid day of month; use 1 to 31"),
            ("0 9 * 13 *", "'13' is not a valid month; use 1 to 12"),
            ("0 9 * * mon-8", "'mon-8' is not a valid day of week; use 0 to 7"),
            ("0 17-9 * * *", "'17-9' is not a valid hour"),
            ("*/0 * * * *", "'\\*/0' is not a valid minute"),
            ("0 9 * *", "has 4 fields, not 5"),
            ("0 0 9 * * *", "has 6 fields, not 5"),
            ("", "has 0 fields, not 5"),
            ("@daily", "'@daily' is a name; write it in five fields, as `0 0 \\* \\* \\*`"),
            (" @Hourly ", "is a name; write it in five fields, as `0 \\* \\* \\* \\*`"),
            ("@reboot", "has 1 field, not 5"),
            ("a b c d e", "'a' is not a valid minute"),
        ],
    )
    def test_a_bad_expression_is_named_with_what_is_wrong(self, expression, error):
        with pytest.raises(ValueError, match=error):
            check_expression(expression)

    @pytest.mark.parametrize("expression", [*CRONS, *NAMES.values()])
    def test_a_good_one_passes(self, expression):
        check_expression(expression)

    @given(st.text("0123456789*/,-#LW @MONJAN\t٣²\0", max_size=30) | st.text(max_size=20))
    def test_whatever_is_written_is_accepted_or_refused_with_a_sentence(self, text):
        if (error := refusal(text)) is not None:
            assert error.startswith("cron ")
        else:
            assert Period(text, "Europe/Berlin").next_after(utc("2026-03-02T09:00")) > utc("2026-03-02T09:00")


class TestFromFields:
    @pytest.mark.parametrize(
        ("fields", "expression"),
        [
            # a minute that is left out beside hours is on the hour
            ({"hour": "3,6,9"}, "0 3,6,9 * * *"),
            ({"minute": "*", "hour": "3,6,9"}, "0 3,6,9 * * *"),
            ({"minute": "", "hour": "*/6", "day_of_month": "1"}, "0 */6 1 * *"),
            ({"minute": "0-59", "hour": "9"}, "0-59 9 * * *"),
            # and without hours each minute
            ({}, "* * * * *"),
            ({"day_of_week": "1-5"}, "* * * * 1-5"),
            ({"minute": 0, "hour": 9, "day_of_month": 1, "month": 2, "day_of_week": 3}, "0 9 1 2 3"),
            ({"minute": 0}, "0 * * * *"),
        ],
    )
    def test_what_is_left_out_is_any(self, fields: dict[str, str], expression: str) -> None:
        assert from_fields(**fields) == expression

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"minute": "60"}, "'60' is not a valid minute; use 0 to 59"),
            ({"day_of_week": "MONDAYS"}, "'MONDAYS' is not a valid day of week; use 0 to 7"),
            ({"minute": "0 9"}, "minute '0 9' is more than one field"),
            ({"day_of_month": "30", "month": "2"}, "never fires"),
            ({"minute": "@daily"}, "'@daily' is not a valid minute"),
            ({"hour": True}, "'True' is not a valid hour"),
        ],
    )
    def test_what_is_wrong_names_its_field(self, fields: dict[str, str], error: str) -> None:
        with pytest.raises(ValueError, match=r"\w") as caught:
            from_fields(**fields)
        assert error in str(caught.value)


class TestAZoneThatIsMisspelt:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("Europe/Berlinn", "Europe/Berlin"), ("europe/berlin", "Europe/Berlin"), ("Berlin", "Europe/Berlin"),
            ("New York", "America/New_York"), ("utc", "UTC"), (" UTC", "UTC"), ("Asia/Calcuta", "Asia/Calcutta"),
            ("CET+1", "CET"), ("right/Europe/Berlin", "Europe/Berlin"), ("posix/Asia/Tokyo", "Asia/Tokyo"),
        ],
    )  # fmt: skip
    def test_gets_a_suggestion(self, written: str, meant: str) -> None:
        with pytest.raises(ValueError, match=f"did you mean {meant}\\?"):
            check_zone(written)

    @pytest.mark.parametrize(
        "written", ["", "CEST", "Mars/Olympus", "../etc/passwd", "x" * 10_000, "localtime", "Factory", "posixrules"]
    )
    def test_gets_none_where_nothing_is_alike(self, written: str) -> None:
        with pytest.raises(ValueError, match=r"unknown time zone .*use an IANA name, such as Europe/Berlin or UTC"):
            check_zone(written)


class TestWhatMayNotBeMeant:
    @pytest.mark.parametrize(
        ("expression", "instead"),
        [
            (
                "*/90 * * * *",
                "it would only be 0. Write 0 for that, or a smaller step; for rarer triggers use",
            ),
            ("0 */24 * * *", "'*/24' has a step of 24 among the 24 values of the hour"),
            ("10-20/30 * * * *", "'10-20/30' has a step of 30 among the 11 values of the minute: it would only be 10"),
            ("0 0 1 */12 *", "it would only be 1. Write 1 for that, or a smaller step"),
        ],
    )
    def test_a_step_that_never_comes_twice_is_refused_where_it_is_typed(self, expression: str, instead: str) -> None:
        with pytest.raises(ValueError, match=re.escape(instead)):
            check_steps(expression)
        check_expression(expression)  # what is stored goes on

    @pytest.mark.parametrize(
        ("expression", "text"),
        [
            ("0 9 1 * 1", "not only on days that match both: `0 9 * * 1#1` is the first such weekday of a month"),
            ("0 9 8-14 * mon", "`0 9 * * mon#2` is the second such weekday"),
            ("0 9 13 * 5", "write the weekday with its number in the month, such as `* * * 1#1`"),
            ("*/7 * * * *", "*/7 of the minute is not even: it begins again after 56, 4 later and not 7; */6 is even"),
            ("0 */5 * * *", "begins again after 20, 4 later and not 5; */4 is even"),
            ("0 0 */2 * *", "*/2 begins again with each month"),
            ("0 0 31 * *", "there is no 31st of February, April, June, September, November; L is the last day"),
            ("0 0 29 2 *", "the 29th comes in leap years alone"),
        ],
    )
    def test_what_it_will_do_is_said_with_a_cure(self, expression: str, text: str) -> None:
        check_steps(expression)
        [doubt] = doubts(expression)
        assert text in doubt

    @pytest.mark.parametrize(
        "cure", ["0 9 * * 1#1", "*/6 * * * *", "0 0 L * *", "0 9 * * 1-5", "0 9 28 * *", "*/15 * * * *"]
    )
    def test_what_says_what_it_does_is_taken_without_a_word(self, cure: str) -> None:
        check_expression(cure)
        check_steps(cure)
        assert doubts(cure) == []


def test_what_fires_too_rarely_for_the_calendar_says_so() -> None:
    fifth_friday_of_february = Period("0 0 * 2 5#5", "Europe/Berlin").after(datetime(9990, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match="does not fire any more before the end of the calendar"):
        deque(fifth_friday_of_february, maxlen=0)
