"""What a schedule still needs: who wants to delete a throttle or an endpoint is told."""

from django.db.models import Model

from delivery.models import Endpoint
from jobs.models import Throttle
from schedules.models import Schedule, Trigger

MOST_NAMED = 5


def use_of(row: Model) -> str:
    """Who uses this throttle or endpoint, in a sentence with what to do; empty: no schedule, and no batch of one."""
    if not isinstance(row, Throttle | Endpoint):
        return ""
    field = "throttle" if isinstance(row, Throttle) else "endpoint"
    being_emitted = Trigger.objects.filter(finished_at=None, emitted_at=None)
    if being_emitted.filter(**{f"frozen_config__{field}_id": row.pk}).exists():
        return f"{row.name}: a batch that needs it is being emitted; let it end or cancel it first"
    names = list(Schedule.objects.filter(**{field: row}).order_by("name").values_list("name", flat=True))
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    called = f"schedule{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMED])}{more}"
    return f"{row.name} is used by the {called}: give {'them' if len(names) > 1 else 'it'} another {field} first"
