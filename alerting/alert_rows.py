"""Alerts as rows of (kind, subject, policy, name, since, text): one statement examines as much as possible.

A worker is silent if it has not stopped, no heartbeat came for a lease, and none that lives has begun on its host
since. `backlog` names it for an hour; this alert lasts until another worker begins.
"""

from typing import Final

from alerting.models import AlertKind
from fleet.assignment_findings import RAISED

NAMES: Final = {"drills": AlertKind.DRILL, "copies": AlertKind.COPY, "damage": AlertKind.CHECK}
"""Kinds of findings whose names differ from those of their alerts."""

OF_ASSIGNMENTS: Final = f"""
SELECT CASE kind {" ".join(f"WHEN '{kind}' THEN '{alert}'" for kind, alert in NAMES.items())} ELSE kind END,
       'assignment:' || id, policy_id, source || ' (' || policy || ')', since, text
  FROM ({RAISED}) AS found
"""

OF_WORKERS: Final = f"""
SELECT '{AlertKind.WORKER}', 'worker:' || w.id, NULL, w.name, w.heartbeat_at,
       'no heartbeat since ' || to_char(w.heartbeat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
  FROM jobs_worker w
 WHERE w.stopped_at IS NULL
   AND w.heartbeat_at <= %(silent_before)s::timestamptz
   AND NOT EXISTS (SELECT
                     FROM jobs_worker younger
                    WHERE younger.hostname = w.hostname AND younger.started_at > w.heartbeat_at
                      AND (younger.stopped_at IS NOT NULL OR younger.heartbeat_at > %(silent_before)s::timestamptz))
"""

GIVEN: Final = """
SELECT * FROM unnest(%(kinds)s::text[], %(subjects)s::text[], %(policies)s::bigint[], %(names)s::text[],
                     %(sinces)s::timestamptz[], %(texts)s::text[])
"""
"""Findings of conditions that are functions (`watching.py`)."""

ALL: Final = "\nUNION ALL\n".join((OF_ASSIGNMENTS, OF_WORKERS, GIVEN))
