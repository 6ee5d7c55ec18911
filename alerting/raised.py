"""Alerts as rows of (kind, subject, policy, name, since, text): one statement looks at all that it can.

A worker is silent if it has not stopped, no heartbeat came for a lease, and none that lives has begun on its host
since. `backlog` names it for an hour; this alert lasts until another worker begins.
"""

from typing import Final

from alerting.models import AlertKind
from fleet.assignment_findings import RAISED

NAMES: Final = {"drills": AlertKind.DRILL, "copies": AlertKind.COPY, "damage": AlertKind.CHECK}
"""Kinds of findings that are called otherwise than their alerts."""

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

# A repository is nearly full below a tenth, until more than an eighth is free again; and where a backup was ended since
# it filled it, until that one succeeds, or a tenth more is free than that one had.
OF_SPACE: Final = f"""
SELECT '{AlertKind.SPACE}', 'repository:' || r.id, NULL, r.name, NULL,
       round(100.0 * r.room_free / r.room_total, 1) || ' %% of it is free'
       || COALESCE(', and a backup needs more: ' || lacks.source, '')
  FROM sources_repository r
 CROSS JOIN LATERAL (
       SELECT min(s.name) AS source
         FROM sources_assignment a
         JOIN sources_source s ON s.id = a.source_id
         JOIN sources_policy p ON p.id = a.policy_id
         JOIN schedules_schedule schedule ON schedule.origin_id = p.schedule_id
        WHERE p.repository_id = r.id AND a.room_lacked IS NOT NULL AND r.room_free < a.room_lacked * 1.1
          AND s.paused_at IS NULL AND s.retired_at IS NULL AND schedule.enabled) AS lacks
 WHERE r.room_total > 0
   AND (lacks.source IS NOT NULL
        OR r.room_free < r.room_total * 0.1
        OR (r.room_free < r.room_total * 0.125
            AND EXISTS (SELECT FROM alerting_alert a
                         WHERE a.kind = '{AlertKind.SPACE}' AND a.subject = 'repository:' || r.id
                           AND a.ended_at IS NULL)))
"""

GIVEN: Final = """
SELECT * FROM unnest(%(kinds)s::text[], %(subjects)s::text[], %(policies)s::bigint[], %(names)s::text[],
                     %(sinces)s::timestamptz[], %(texts)s::text[])
"""
"""What conditions of other kinds found (`watching.py`)."""

ALL: Final = "\nUNION ALL\n".join((OF_ASSIGNMENTS, OF_WORKERS, OF_SPACE, GIVEN))
