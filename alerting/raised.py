"""What needs a person, as rows of (kind, subject, policy, name, since, text): one statement looks at all of it.

Paused and retired sources raise nothing, nor does a disabled policy: a person chose that.

* overdue, never: two chances were missed. A period in which its window was open has ended since it was overdue, which
  is one missed chance and has a hysteresis of its own (`sources/domain/overdue.py`); where a policy names
  `alert_after`, that is when.
* failing: two failures in a row, until a success.
* copy: a point has not been in its copy for longer than `copy_within`, or what was copied is damaged.
* drill, check, held back: the last drill failed, the last check found damage, a backup looked wrong; until the
  opposite, or until a person accepts.
* worker: it has not stopped, no heartbeat came for a lease, and none that lives has begun on its host since.
"""

from typing import Final

from alerting.models import AlertKind
from jobs.states import UNFINISHED

FAILING_AFTER: Final = 2
"""Failures in a row. One alone is tried again, and is nothing to get up for."""

MISSED: Final = """
a.overdue_since IS NOT NULL
   AND (p.alert_after IS NOT NULL OR p.chance_over_at > a.overdue_since)
"""

COPY_LATE: Final = """
(p.copy_to_id IS NOT NULL AND a.to_copy_since < %(now)s::timestamptz - make_interval(secs => p.copy_within))
"""
COPY_DAMAGED: Final = "(a.to_copy_since IS NULL AND k.error <> '')"

LAST_ERROR: Final = f"""
CASE WHEN a.failures >= {FAILING_AFTER}
     THEN COALESCE((SELECT ': ' || split_part(r.last_error, E'\\n', 1)
                      FROM jobs_backlogrecord r
                     WHERE r.kind = 'backup' AND r.subject = 'assignment:' || a.id AND r.last_error <> ''
                       AND r.status IN ({", ".join(str(int(status)) for status in UNFINISHED)})), '') END
"""
"""Of its unfinished record; empty when it has given up, until the next period."""

OF_ASSIGNMENTS: Final = f"""
SELECT v.kind, 'assignment:' || a.id, a.policy_id, s.name || ' (' || o.name || ')', v.since, v.text
  FROM sources_assignment a
  JOIN sources_source s ON s.id = a.source_id
  JOIN sources_policy p ON p.id = a.policy_id
  JOIN schedules_schedule schedule ON schedule.origin_id = p.schedule_id
  JOIN jobs_origin o ON o.id = p.schedule_id
  LEFT JOIN sources_checkround c ON c.assignment_id = a.id
  LEFT JOIN sources_copy k ON k.assignment_id = a.id AND k.repository_id = p.copy_to_id
 CROSS JOIN LATERAL (VALUES
       ('{AlertKind.OVERDUE}', a.last_backup_at IS NOT NULL AND {MISSED}, a.last_backup_at,
        'no backup since ' || to_char(a.last_backup_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'),
       ('{AlertKind.NEVER}', a.last_backup_at IS NULL AND {MISSED}, a.inserted_at,
        'here since ' || to_char(a.inserted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'),
       ('{AlertKind.FAILING}', a.failures >= {FAILING_AFTER}, a.first_failure_at,
        a.failures || ' failures in a row' || {LAST_ERROR}),
       ('{AlertKind.HELD_BACK}', a.held_back_since IS NOT NULL, a.held_back_since, a.held_back_why),
       ('{AlertKind.DRILL}', a.drill_error <> '', NULL, a.drill_error),
       ('{AlertKind.COPY}', {COPY_LATE} OR {COPY_DAMAGED}, COALESCE(a.to_copy_since, k.copied_at),
        COALESCE(NULLIF(k.error, ''), 'a point has not come there')),
       ('{AlertKind.CHECK}', COALESCE(jsonb_array_length(c.damage), 0) > 0, c.checked_at,
        jsonb_array_length(c.damage) || ' damaged files')
       ) AS v(kind, holds, since, text)
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL AND schedule.enabled AND v.holds
   AND (a.overdue_since IS NOT NULL OR a.failures >= {FAILING_AFTER} OR a.held_back_since IS NOT NULL
        OR {COPY_LATE} OR {COPY_DAMAGED} OR a.drill_error <> '' OR c.damage <> '[]'::jsonb)
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
