from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.domain.retention import BUCKETS, Keep, Point

ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Auckland")
INSTANTS = st.datetimes(datetime(2024, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
RULES = st.builds(Keep, *[st.integers(0, 5)] * 6, st.sampled_from([0, 3600, 86_400, 30 * 86_400]))


def points_at(instants: list[datetime], incomplete: int = 0) -> list[Point]:
    return [
        Point(f"{number}", each, number >= incomplete) for number, each in enumerate(sorted(instants, reverse=True))
    ]


@given(st.lists(INSTANTS, max_size=40, unique=True), RULES, st.sampled_from(ZONES), st.integers(0, 3))
def test_what_is_kept_is_the_newest_of_each_bucket(
    instants: list[datetime], keep: Keep, zone: str, incomplete: int
) -> None:
    points = points_at(instants, incomplete)
    found = keep.apply(points, zone)
    assert [each.point for each in found] == points, "the newest first, each once"
    kept = {each.point.name: each.reasons for each in found if each.reasons}
    for name, bucket_of in BUCKETS.items():
        newest: dict[tuple[int, ...], Point] = {}
        for point in points:
            newest.setdefault(bucket_of(point.started_at.astimezone(ZoneInfo(zone))), point)
        wanted = [point.name for point in newest.values()][: getattr(keep, name)]
        assert [each for each in kept if name in kept[each]] == wanted
    assert [each for each in kept if "last" in kept[each]] == [point.name for point in points[: keep.last]]
    for point in points:
        is_young = points[0].started_at - point.started_at < timedelta(seconds=keep.within)
        assert ("within" in kept.get(point.name, ())) == is_young
    if points:
        assert "0" in kept
    if complete := [point.name for point in points if point.complete]:
        assert complete[0] in kept
    if keep == Keep():
        assert len(kept) == len(points)


@given(st.lists(INSTANTS, max_size=30, unique=True), RULES, st.sampled_from(ZONES))
def test_what_was_removed_is_not_missed_by_a_second_look(instants: list[datetime], keep: Keep, zone: str) -> None:
    first = [each.point for each in keep.apply(points_at(instants), zone) if each.reasons]
    assert [each.point for each in keep.apply(first, zone) if each.reasons] == first


def test_days_are_those_of_the_zone_and_the_hour_that_is_repeated_counts_twice() -> None:
    night = [datetime(2026, 10, 24, 22, 30, tzinfo=UTC) + timedelta(hours=hour) for hour in range(4)]
    found = Keep(daily=2, hourly=9).apply(points_at(night), "Europe/Berlin")
    assert [each.reasons for each in found] == [("hourly", "daily"), *[("hourly",)] * 3]


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ([], "what to keep is an object; write"),
        ({"fortnightly": 2}, "'fortnightly' is not a rule of what to keep; write"),
        ({"last": 0}, "last is 0 and must be a whole number from 1 to 100,000; write"),
        ({"daily": True}, "daily is True and must be a whole number"),
        ({"weekly": "8"}, "weekly is '8' and must be a whole number"),
        ({"within": "a month"}, "'a month' is not a duration; write 90s, 15m, 2h, 7d"),
        ({"within": 0}, "'0' is not a duration from 1 to"),
    ],
)
def test_bad_rules_are_named_with_what_is_right(rules: Any, problem: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared
        Keep.parse(rules)
    assert problem in str(raised.value)


def test_rules_are_read() -> None:
    assert Keep.parse({"last": 7, "weekly": 8, "within": "30d"}) == Keep(last=7, weekly=8, within=30 * 86_400)
