"""What a batch was begun with. While its chunks follow each other, an edit of its schedule does not reach it.

The first chunk writes it to the trigger, unless it is the whole batch; the last one clears it. The schedule's
retry policy is no part of it: whoever edits that gives it to the events that are out as well (`rescheduling.follow`),
so those to come take what the schedule names now, and the batch is one again. What is out and what is to come name the
same endpoint and throttle, though nothing keeps these from being deleted once the schedule names others: without its
endpoint an event fails, without its throttle it is not capped, whichever chunk it came with.
"""

import json
from copy import copy

from schedules.models import Schedule

FIELDS = (
    "name", "zone", "kind", "event_count", "endpoint_id", "payload_template", "window_for", "stagger", "late",
    "throttle_id", "priority",
)  # fmt: skip
"""Whatever a batch and its records take from their schedule."""


def frozen_config_of(schedule: Schedule) -> str:
    """What the batch of a trigger of `schedule` is made of, as JSON."""
    return json.dumps({field: getattr(schedule, field) for field in FIELDS})


def as_begun(schedule: Schedule, frozen_config: str | None) -> Schedule:
    """`schedule` as it was when the batch began, unsaved and not to be saved; itself without one."""
    if frozen_config is None:
        return schedule
    begun = copy(schedule)
    for field, value in json.loads(frozen_config).items():
        setattr(begun, field, value)
    return begun
