"""Assignments that have not been backed up for too long: kept up to date every minute, a thousand in one statement. So
is the end of each policy's last chance, by which an alert knows that a second one was missed.

The rule, with its hysteresis, is that of `sources/domain/overdue.py`. Nothing is raised about a source that is paused
or retired, or about a disabled policy: that was a choice.
"""

import time
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs import decisions
from jobs.clock import database_clock
from jobs.prepared_statements import execute
from jobs.set_aside import name_once
from schedules.cron import Period
from sources.domain.overdue import Thresholds, thresholds
from sources.domain.windows import Window
from sources.models import Policy
from sources.planning import KIND, subject_of

FOUND = """
SELECT {columns}
  FROM sources_assignment a
  JOIN unnest(%(policy)s::bigint[], %(raise_before)s::timestamptz[], %(clear_after)s::timestamptz[])
       AS p(policy_id, raise_before, clear_after) ON p.policy_id = a.policy_id
  JOIN sources_source s ON s.id = a.source_id
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
   AND CASE WHEN a.overdue_since IS NULL
            THEN COALESCE(LEAST(a.last_backup_at, a.next_backup_at), a.inserted_at) < p.raise_before
            ELSE a.last_backup_at IS NOT NULL AND LEAST(a.last_backup_at, a.next_backup_at) > p.clear_after END
"""

# Usually there is none, so a transaction would be wasted.
ANY = FOUND.format(columns="a.id") + " LIMIT %(limit)s"

# Assignments that a settle holds locked are looked at a minute later.
LOOK = f"""
WITH changing AS ({FOUND.format(columns="a.id, s.name")}
   LIMIT %(limit)s
   FOR UPDATE OF a SKIP LOCKED
)
UPDATE sources_assignment a
   SET overdue_since = CASE WHEN a.overdue_since IS NULL THEN %(now)s::timestamptz END
  FROM changing s
 WHERE a.id = s.id
RETURNING a.id, s.name, a.overdue_since IS NOT NULL, COALESCE(a.last_backup_at, a.inserted_at)
"""


CHANCES = """
UPDATE sources_policy p
   SET chance_over_at = found.at
  FROM (SELECT id, at
          FROM sources_policy
          JOIN unnest(%(policy)s::bigint[], %(chance_over_at)s::timestamptz[]) AS m(policy_id, at) ON policy_id = id
         WHERE chance_over_at IS DISTINCT FROM at
           FOR NO KEY UPDATE OF sources_policy SKIP LOCKED) AS found
 WHERE p.id = found.id
"""

LOOK_SECONDS = 0.3
"""Seconds of a minute's round for limits once they are read, and as long for rows; the next round does the rest. By
then it remembers the periods that this one has worked out.
"""
AT_ONCE = 1000
"""Assignments a transaction, each with its line of the log."""


def look(now: datetime | None = None, seconds: float = LOOK_SECONDS) -> int:
    """Raise and clear `overdue_since` of all assignments. Returns how many changed."""
    instant = now or database_clock()
    limits, chances = _limits(instant, seconds)
    if chances:
        execute(CHANCES, {"policy": list(chances), "chance_over_at": list(chances.values())})
    values: dict[str, Any] = {
        "now": instant,
        "limit": AT_ONCE,
        "policy": list(limits),
        "raise_before": [limit.raise_before for limit in limits.values()],
        "clear_after": [limit.clear_after for limit in limits.values()],
    }
    changed, until = 0, time.monotonic() + seconds
    while execute(ANY, values).fetchall():
        with transaction.atomic():
            rows = execute(LOOK, values).fetchall()
            decisions.log_all((_line(*row) for row in rows), instant)
        changed += len(rows)
        if len(rows) < AT_ONCE or time.monotonic() >= until:
            break
    return changed


def _limits(now: datetime, seconds: float) -> tuple[dict[int, Thresholds], dict[int, datetime | None]]:
    """The limits of each policy, and the ends of last chances that its row does not have yet."""
    names = (
        "pk", "schedule__name", "schedule__cron", "schedule__zone", "alert_after", "window", "excluded_dates",
        "chance_over_at",
    )  # fmt: skip
    policies = list(Policy.objects.filter(schedule__enabled=True).order_by("pk").values_list(*names))
    until = time.monotonic() + seconds
    found: dict[int, Thresholds] = {}
    chances: dict[int, datetime | None] = {}
    for policy, name, cron, zone, alert_after, rows, excluded, known in policies:
        if time.monotonic() >= until:
            break
        try:
            window = Window.parse(rows, zone, excluded) if rows or excluded else None
            limits = found[policy] = thresholds(Period(cron, zone), alert_after, now, window)
            if limits.chance_over_at != known:
                chances[policy] = limits.chance_over_at
        except Exception as error:  # no query is involved: its cron, zone or window cannot be read
            name_once(f"policy {name} raises no alert: {error}")
    return found, chances


def _line(assignment_id: int, source: str, overdue: bool, since: datetime) -> decisions.DecisionLine:
    text = (
        f"{source} has not been backed up since {since:%Y-%m-%d %H:%M} UTC"
        if overdue
        else f"{source} is protected again"
    )
    return decisions.DecisionLine("overdue" if overdue else "overdue no more", text, KIND, subject_of(assignment_id))
