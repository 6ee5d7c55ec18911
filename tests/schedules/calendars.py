"""Expressions, zones and instants about the jumps of their clocks, for tests of periods."""

from datetime import UTC, datetime, timedelta
from itertools import islice

from hypothesis import strategies as st

from schedules.cron import Period

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Havana",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Africa/Cairo",
    "America/Santiago",
]
CRONS = [
    "*/15 2 * * *",
    "0 */2 * * *",
    "20,40 0-23 * * *",
    "0 9 * * *",
    "30 2 * * *",
    "0 0 * * *",
    "*/15 * * * *",
    "0 * * * *",
    "0 22 * * 1-5",
    "0 0 1 * *",
    "0 0 29 2 *",
]

periods = st.builds(Period, st.sampled_from(CRONS), st.sampled_from(ZONES))
CLOCK_CHANGES = [
    datetime.fromisoformat(f"{text}+00:00")
    for text in (
        "2026-03-29T01:00", "2026-10-25T01:00", "2026-03-08T05:00", "2026-11-01T05:00", "2026-03-28T22:00",
        "2026-10-24T21:00", "2026-10-03T15:30", "2026-04-04T15:00", "2011-12-30T10:00", "2012-02-29T00:00",
        "2024-04-25T22:00", "2024-10-31T21:00", "2023-09-03T04:00", "2023-04-02T03:00",
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
