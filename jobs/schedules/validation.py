"""What a schedule may be, beyond its single fields."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.models import Schedule


def problems_of(schedule: "Schedule") -> dict[str, str]:
    """What is wrong with its batch and its delivery, by field. Empty: nothing."""
    errors: dict[str, str] = {}
    if not schedule.provider and schedule.event_count is None:
        errors["event_count"] = "is missing: how many events does a trigger yield?"
    if schedule.provider and schedule.event_count is not None:
        errors["event_count"] = f"is not for this schedule: its batch comes from {schedule.provider}"
    return errors
