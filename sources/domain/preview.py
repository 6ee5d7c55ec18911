"""The periods of a policy with the openings of its window in them, and whether both ever meet. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from schedules.cron import Period
from schedules.time_limits import TimeCheck, without_limit
from sources.domain.windows import Opening, Window

CHECKED_PERIODS = 10
"""The number of coming periods that are looked at when a policy is saved: as many as a preview shows."""
MOST_OPENINGS = 10_000
"""The most openings of all periods of a preview. A window of 200 ranges has 292,000 in a period from one 29 February to
the next.
"""


@dataclass(frozen=True)
class PreviewedPeriod:
    """A period `begins_at` ≤ t < `ends_at` (aware UTC), and the openings in it, cut at its ends.

    `warning` is the reason why there is no opening; empty if there is one.
    """

    begins_at: datetime
    ends_at: datetime
    openings: tuple[Opening, ...]
    warning: str = ""


def coming_periods(
    period: Period, window: Window, start: datetime, count: int, check_time: TimeCheck = without_limit
) -> list[PreviewedPeriod]:
    """The first `count` periods that begin at or after `start` (aware). `check_time` is called before each period and
    for each of its openings: some take a search over two years, and some have hundreds of thousands of openings.

    Raises: ValueError for more openings than are shown; the errors of `check_time`.
    """
    found, left = list[PreviewedPeriod](), MOST_OPENINGS
    for begins_at, ends_at in _periods(period, start, count):
        check_time()
        openings = list[Opening]()
        for opening in window.openings(begins_at, ends_at):
            check_time()
            left -= 1
            if left < 0:
                raise ValueError(f"{count} periods have more than {MOST_OPENINGS:,} openings: ask for fewer periods")
            openings.append(Opening(max(opening.opens_at, begins_at), min(opening.closes_at, ends_at)))
        warning = "" if openings else _why_none(window, begins_at, ends_at)
        found.append(PreviewedPeriod(begins_at, ends_at, tuple(openings), warning))
    return found


def check_period_meets_window(period: Period, window: Window, now: datetime) -> list[str]:
    """Warnings about periods without an opening, among the coming ten. Empty if each has one.

    A backup that is due waits for the next opening, however many periods that takes; so only a window that does not
    open at all is wrong. Raises: ValueError when it has no opening within two years.
    """
    window.current_or_next(now)
    coming = list(_periods(period, now, CHECKED_PERIODS))
    closed = [begins_at for begins_at, ends_at in coming if not any(window.openings(begins_at, ends_at))]
    if not closed:
        return window.doubts
    verb = "has" if len(closed) == 1 else "have"
    begins = f"{local(closed[0], period.zone)} {period.zone}"
    example = "the one that begins" if len(closed) == 1 else "as the one that begins"
    return [
        *window.doubts,
        f"{len(closed)} of the next {len(coming)} periods {verb} no opening, {example} {begins}: backups will "
        "be rarer than its cron expression",
    ]


def local(instant: datetime, zone: str) -> str:
    """An instant to the minute as the clocks of `zone` show it."""
    return f"{instant.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}"


def _periods(period: Period, start: datetime, count: int) -> Iterator[tuple[datetime, datetime]]:
    """The beginnings and ends of the first `count` periods that begin at or after `start`."""
    return pairwise(islice(period.after(start - timedelta(microseconds=1)), count + 1))


def _why_none(window: Window, begins_at: datetime, ends_at: datetime) -> str:
    if any(Window(window.ranges, window.zone).openings(begins_at, ends_at)):
        why = "its openings fall on excluded dates"
    else:
        why = "the window is closed throughout"
    try:
        following = window.current_or_next(ends_at)
    except ValueError:
        return f"{why}; no opening follows within two years"
    return f"{why}; the next opening is at {local(following.opens_at, window.zone)}" if following else why
