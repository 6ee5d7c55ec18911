"""Pause and resume a schedule that is not a policy: for the admin and the command, with the result as text."""

from datetime import datetime

from external.formatting import moment
from schedules import verbs
from schedules.models import Schedule
from schedules.obstacles import obstacle_to_editing


def pause(schedule: Schedule, *, until: datetime | None = None, reason: str = "") -> tuple[bool, str]:
    """Pause; returns True if that changed anything, and the new state as text. Raises: ValueError, as `check_no_policy`
    and `verbs.pause` do.
    """
    check_no_policy(schedule)
    if not verbs.pause(schedule, until=until, reason=reason):
        return False, "it was paused before"
    schedule.refresh_from_db()
    end = schedule.paused_until
    return True, f"it triggers nothing until {f'{moment(end)} UTC' if end else 'it is resumed'}"


def resume(schedule: Schedule) -> tuple[bool, str]:
    """Resume; returns True if that changed anything, and the new state as text. Raises: ValueError as
    `check_no_policy`.
    """
    check_no_policy(schedule)
    if not verbs.resume(schedule):
        return False, "it was not paused"
    schedule.refresh_from_db()
    return True, f"it triggers next at {moment(schedule.next_trigger_at)} UTC"


def check_no_policy(schedule: Schedule) -> None:
    """Raises: ValueError for the schedule of a policy, whose dates and records change with it."""
    if obstacle := obstacle_to_editing(schedule):
        raise ValueError(obstacle)
