"""Who has not been backed up for too long: kept up to date every minute, for all assignments in one statement.

The rule, with its hysteresis, is that of `sources/domain/alerts.py`. Nobody is told of a paused source or a disabled
policy, whose pause a person chose.
"""

from datetime import datetime
from typing import Any

from django.db import connection, transaction

from jobs import decisions
from jobs.clock import database_clock
from jobs.schedules.watermarks import can_emit
from sources.domain.alerts import thresholds
from sources.models import Policy
from sources.planning import KIND, subject_of

# What a settle holds locked is looked at a minute later.
LOOK = """
WITH changing AS (
SELECT a.id, s.name
  FROM sources_assignment a
  JOIN unnest(%(policy)s::bigint[], %(raise_before)s::timestamptz[], %(clear_after)s::timestamptz[])
       AS p(policy_id, raise_before, clear_after) ON p.policy_id = a.policy_id
  JOIN sources_source s ON s.id = a.source_id
 WHERE s.paused_at IS NULL
   AND CASE WHEN a.overdue_since IS NULL
            THEN COALESCE(LEAST(a.last_backup_at, a.next_backup_at), a.inserted_at) < p.raise_before
            ELSE a.last_backup_at IS NOT NULL AND LEAST(a.last_backup_at, a.next_backup_at) > p.clear_after END
   FOR UPDATE OF a SKIP LOCKED
)
UPDATE sources_assignment a
   SET overdue_since = CASE WHEN a.overdue_since IS NULL THEN %(now)s END
  FROM changing s
 WHERE a.id = s.id
RETURNING a.id, s.name, a.overdue_since IS NOT NULL, COALESCE(a.last_backup_at, a.inserted_at)
"""


@transaction.atomic
def look(now: datetime | None = None) -> int:
    """Raise and clear `overdue_since` of all assignments. Returns how many changed."""
    instant = now or database_clock()
    policies = [
        p for p in Policy.objects.filter(schedule__enabled=True).select_related("schedule") if can_emit(p.schedule)
    ]
    limits = [thresholds(policy.schedule.period, policy.alert_after, instant) for policy in policies]
    values: dict[str, Any] = {
        "now": instant,
        "policy": [policy.pk for policy in policies],
        "raise_before": [limit.raise_before for limit in limits],
        "clear_after": [limit.clear_after for limit in limits],
    }
    with connection.cursor() as cursor:
        cursor.execute(LOOK, values)
        changed = cursor.fetchall()
    decisions.doing_all((_line(*row) for row in changed), instant)
    return len(changed)


def _line(assignment_id: int, source: str, overdue: bool, since: datetime) -> decisions.Line:
    text = (
        f"{source} has not been backed up since {since:%Y-%m-%d %H:%M} UTC"
        if overdue
        else f"{source} is protected again"
    )
    return decisions.Line("overdue" if overdue else "overdue no more", text, KIND, subject_of(assignment_id))
