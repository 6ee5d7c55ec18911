"""Obstacles to editing, triggering and deleting a schedule, and to deleting the rows that schedules need."""

from typing import Any

from django.db.models import Model

from declarations.service import used_by
from delivery.models import Endpoint
from jobs.models import BacklogRecord, RetryPolicy, Throttle
from jobs.states import UNFINISHED
from schedules.models import Schedule, Trigger

MOST_COUNTED = 1_000


def owners() -> list[str]:
    """The names by which a schedule has the row that it is a part of: `select_related` of these asks for none later."""
    names = (each.get_accessor_name() for each in Schedule._meta.related_objects if each.one_to_one)
    return [name for name in names if name]


def owner_of(schedule: Schedule) -> Any:
    """The row that a schedule is a part of, such as a policy. None if it is a schedule alone."""
    return next((owner for name in owners() if (owner := getattr(schedule, name, None))), None)


def obstacle_to_editing(schedule: Schedule) -> str:
    """The reason why a schedule is not edited by itself: the row that it belongs to. Empty if it is."""
    owner = owner_of(schedule)
    if owner is None:
        return ""
    return f"{_describe_owner(schedule, owner)}: edit or delete that"


def obstacle_to_triggering(schedule: Schedule) -> str:
    """The reason why a schedule is not triggered by itself, with what to do instead. Empty if it is."""
    owner = owner_of(schedule)
    return f"{_describe_owner(schedule, owner)}: use *back up now*" if owner else ""


def _describe_owner(schedule: Schedule, owner: Any) -> str:
    return f"{schedule} is the schedule of the {owner._meta.verbose_name} {owner}"


def obstacle_to_deleting(schedule: Schedule) -> str:
    """The reason why a schedule cannot be deleted now, with what to do about it. Empty if it can."""
    if obstacle := obstacle_to_editing(schedule):
        return obstacle
    if Trigger.objects.filter(schedule=schedule, emitted_at=None, finished_at=None).exists():
        return (
            f"{schedule} cannot be deleted now: one of its batches is being emitted or queued. Cancel that batch first"
        )
    unfinished = BacklogRecord.objects.filter(origin=schedule, trigger_at__isnull=False, status__in=UNFINISHED)
    count = unfinished.order_by()[: MOST_COUNTED + 1].count()
    if not count:
        return ""
    what = f"{count:,} of its events {'are' if count > 1 else 'is'} unfinished"
    if count > MOST_COUNTED:
        what = f"more than {MOST_COUNTED:,} of its events are unfinished"
    return f"{schedule} cannot be deleted now: {what}. Pause it and let them end, or cancel them"


def use_of(row: Model) -> str:
    """The users of this throttle, endpoint or retry policy, in a sentence with what to do; empty if no schedule and no
    batch of one uses it.
    """
    if not isinstance(row, Throttle | Endpoint | RetryPolicy):
        return ""
    title = str(row._meta.verbose_name)
    field = title.replace(" ", "_")
    being_emitted = Trigger.objects.filter(finished_at=None, emitted_at=None)
    if field != "retry_policy" and being_emitted.filter(**{f"frozen_config__{field}_id": row.pk}).exists():
        return f"{row.name}: a batch that needs it is being emitted; let it end or cancel it first"
    names = list(Schedule.objects.filter(**{field: row}).order_by("name").values_list("name", flat=True))
    return used_by(row.name, "schedule", names, title) if names else ""
