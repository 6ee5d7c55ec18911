"""Durations and instants as people write and read them."""

from datetime import timedelta

import pytest

from external.durations import instant, parse, span, write
from tests.factories import NOON


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604_800), ("1y", 31_536_000), ("1.5h", 5400), ("0.5", 0.5)],
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    found = parse(text)
    assert (found, type(found)) == (seconds, type(seconds))


def test_a_duration_is_written_as_it_is_read() -> None:
    written = {0: "0s", 0.25: "0.25s", 90: "90s", 900.0: "15m", 5400: "90m", 7200: "2h", 2_419_200: "28d"}
    assert {seconds: write(seconds) for seconds in written} == written
    assert {seconds: parse(text) for seconds, text in written.items()} == {seconds: seconds for seconds in written}


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e3", "nan", "inf", "5 m", "5m\n", "٣m", "9" * 5000, "m", "99w99"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; write 90s, 15m, 2h, 7d or a number of seconds"):
        parse(text)


def test_what_is_out_of_bounds_is_refused_with_them() -> None:
    with pytest.raises(ValueError, match=r"'2h' is not a duration from 1 to 3,600 seconds"):
        parse("2h", 1, 3600)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0, "0 s"), (0.04, "40 ms"), (5, "5 s"), (2.34, "2.3 s"), (60, "1 min"), (90_000, "1 d 1 h")],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


def test_an_instant_is_so_long_ago_or_written_out() -> None:
    assert instant("90m", NOON) == NOON - timedelta(minutes=90)
    assert instant(f"{NOON:%Y-%m-%dT%H:%M}", NOON) == NOON
    for wrong in ("yesterday", "", "9999999999y", "2026-13-01"):
        with pytest.raises(ValueError, match=r"is not an instant; write 24h, 7d"):
            instant(wrong, NOON)
