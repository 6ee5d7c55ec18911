"""Cron as five fields: what is left out, and back again."""

from itertools import islice

import pytest
from hypothesis import strategies as st

from schedules.cron import Period, check_zone, from_fields
from tests.factories import NOON

MINUTES = st.sampled_from(["*", "0", "*/15", "5,35", "0-59"])
HOURS = st.sampled_from(["*", "9", "3,6,9", "*/4", "0-23"])
DAYS = st.sampled_from(["*", "1", "L", "1-7", "*/2"])
MONTHS = st.sampled_from(["*", "2", "JAN", "*/3"])
WEEKDAYS = st.sampled_from(["*", "1-5", "SUN", "0", "7"])


def triggers(expression: str) -> list[str]:
    return [f"{at:%Y-%m-%d %H:%M}" for at in islice(Period(expression, "UTC").after(NOON), 10)]


class TestFromFields:
    def test_a_minute_left_out_beside_hours_means_on_the_hour(self) -> None:
        assert from_fields(hour="3,6,9") == "0 3,6,9 * * *"
        assert from_fields("*", "3,6,9") == "0 3,6,9 * * *"
        assert from_fields("", "*/6", "1") == "0 */6 1 * *"
        of_a_day = [at for at in triggers(from_fields(hour="3,6,9")) if at.startswith("2026-03-03")]
        assert of_a_day == ["2026-03-03 03:00", "2026-03-03 06:00", "2026-03-03 09:00"]

    def test_a_minute_left_out_without_hours_is_each_minute(self) -> None:
        assert from_fields() == "* * * * *"
        assert from_fields(day_of_week="1-5") == "* * * * 1-5"

    def test_each_minute_of_an_hour_can_be_said(self) -> None:
        assert from_fields("0-59", "9") == "0-59 9 * * *"

    def test_numbers_are_taken_and_0_is_not_left_out(self) -> None:
        assert from_fields(0, 9, 1, 2, 3) == "0 9 1 2 3"
        assert from_fields(0) == "0 * * * *"

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"minute": "60"}, "'60' is no minute; use 0 to 59"),
            ({"day_of_week": "MONDAYS"}, "'MONDAYS' is no day of week; use 0 to 7"),
            ({"minute": "0 9"}, "minute '0 9' is more than one field"),
            ({"day_of_month": "30", "month": "2"}, "never fires"),
            ({"minute": "@daily"}, "'@daily' is no minute"),
            ({"hour": True}, "'True' is no hour"),
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
        ],
    )  # fmt: skip
    def test_gets_a_suggestion(self, written: str, meant: str) -> None:
        with pytest.raises(ValueError, match=f"did you mean {meant}\\?"):
            check_zone(written)

    @pytest.mark.parametrize("written", ["", "CEST", "Mars/Olympus", "x" * 10_000])
    def test_gets_none_where_nothing_is_alike(self, written: str) -> None:
        with pytest.raises(ValueError, match="use an IANA name, as Europe/Berlin or UTC"):
            check_zone(written)
