"""Points of an assignment, and the choice of one by a time."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from types import MappingProxyType

from external import durations
from storage import layout
from storage.points.trees import NotThere

EXAMPLES = (
    "write 24h, yesterday, 2026-03-02, 2026-03-02T12:00, 2026-03-02T12:00+01:00, or a point such as 20260302T110000Z"
)


def choose(
    points: Sequence[str],
    at: str | None,
    now: datetime,
    zone: tzinfo,
    times: Mapping[str, datetime] = MappingProxyType({}),
) -> str:
    """The newest point at or before `at`, or the newest one of all if `at` is None; if `at` is the name of a point,
    exactly that one. Wall clock times are those of `zone`; a date means its end. `now` is aware. `times`: the times of
    points, as far as they are known: once a clock was ahead, the names of all later points have that second.

    Raises: NotThere; ValueError if it is not a time.
    """
    if not points:
        raise NotThere("there is no point to restore yet: no backup with a manifest has succeeded")
    if at is None or at in points:
        return at or points[-1]
    until = instant(at, now, zone)
    if layout.NAME.fullmatch(at):
        raise NotThere(f"there is no point {at}; for the newest one at or before that time, write {until.isoformat()}")
    if earlier := [each for each in points if (times.get(each) or layout.instant_of(each)) <= until]:
        return earlier[-1]
    raise NotThere(
        f"there is no point at or before {in_zone(until, zone)}; the first one is {points[0]}, "
        f"of {in_zone(layout.instant_of(points[0]), zone)}"
    )


def instant(written: str, now: datetime, zone: tzinfo) -> datetime:
    """The instant that a user means by a time. Raises: ValueError with examples."""
    today = now.astimezone(zone).date()
    days = {"now": None, "today": today, "yesterday": today - timedelta(days=1)}
    try:
        if written in days:
            day = days[written]
            return _end_of(day, zone) if day else now
        if layout.NAME.fullmatch(written):
            return layout.instant_of(written)
        if len(written) == len("2026-03-02"):
            return _end_of(datetime.fromisoformat(written).date(), zone)
        parsed = durations.instant(written, now)
        if written[-1:] in durations.UNITS and not written[-1:].isdigit():
            return parsed
        local = datetime.fromisoformat(written)
        return (local if local.tzinfo else local.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{written!r:.60} is not a time; {EXAMPLES}") from None


def in_zone(at: datetime, zone: tzinfo) -> str:
    """An instant in a zone, with its offset."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %z}"


def _end_of(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time.max, zone).astimezone(UTC)
