"""Limits between which an assignment is overdue. Pure: `now` is always an argument.

An assignment is overdue when its last success (or, without one, its insertion) is too long ago: `alert_after` seconds,
or, if the policy has none, a whole missed period: the trigger after its next-backup date has passed, too. A period in
which the window never opens, such as on a holiday or at night, does not count as missed. It stays overdue until a
success that is clearly more recent (0.8 × `alert_after`, or in the current period), so an age that hovers around the
limit raises one alert and not one each day.

The age counts from the last success, or from its next-backup date if that is earlier (a start after that date was dated
by a wrong clock). Both limits are the same for all assignments of a policy, so one statement looks at all of them
(`sources/protection/overdue_assignments.py`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from schedules.cron import Period
from sources.domain.windows import LOOKED_BACK_DAYS, Window

CLEARED_BELOW = 0.8
"""A factor of `alert_after`: the age of the last success below which an alert ends."""

SMALLEST_STEP = timedelta(microseconds=1)
"""The smallest step of PostgreSQL's timestamps and of Python's: it turns `≤` into `<`."""


@dataclass(frozen=True)
class Thresholds:
    """Overdue when it counts from before `raise_before`, until it counts from after `clear_after`. `chance_over_at`:
    the end of the last period in which there could be a backup, None with `alert_after`.
    """

    raise_before: datetime
    clear_after: datetime
    chance_over_at: datetime | None = None


def thresholds(period: Period, alert_after: float | None, now: datetime, window: Window | None = None) -> Thresholds:
    """The limits of all assignments of a policy at `now`. `alert_after` in seconds; None means a whole missed period.
    `window`: the policy's; None means always open.
    """
    if alert_after is not None:
        clear_after = now - timedelta(seconds=CLEARED_BELOW * alert_after)
        return Thresholds(now - timedelta(seconds=alert_after) + SMALLEST_STEP, clear_after)
    before, began, ends = period.around(now)
    over = began
    if window and not window.always_open:
        before, over, began = _with_openings(period, window, before, began, ends)
    return Thresholds(before, began - SMALLEST_STEP, over)


@lru_cache(maxsize=20_000)
def _with_openings(
    period: Period, window: Window, before: datetime, began: datetime, ends: datetime
) -> tuple[datetime, datetime, datetime]:
    """The start and the end of the last period that has ended in which the window was open, and the start of the
    present one, or, where it does not open in that, of the former."""
    for days in LOOKED_BACK_DAYS:
        if last := window.last_opening(began - timedelta(days=days), began):
            before = period.current(min(last.closes_at, began) - SMALLEST_STEP)
            break
    return before, period.next_after(before), (began if any(window.openings(began, ends)) else before)
