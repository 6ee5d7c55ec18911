"""Findings of assignments, by one statement in which each condition is written once.

Alerts embed it, so that a hundred thousand do not pass through Python (`alerting/alert_rows.py`); the doctor reads
those of its kinds, pages and the reasons of a source those of some assignments. `fleet/status/of_all.py` determines the
status of a source by the same predicates.

* overdue, never: two chances were missed. A period in which its window was open has ended since it was overdue, which
  is one missed chance and has a separate hysteresis (`sources/domain/overdue.py`); if a policy names `alert_after`,
  the finding begins then.
* failing: two failures in a row, until a success. One alone is tried again, and wakes no one up.
* copies: a point has not been in its copy for longer than `copy_within`, or the copied data is damaged.
* drills, damage, held_back: the last drill failed, the last check found damage, a backup looked wrong; until the
  opposite, or until an operator accepts it.
"""

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connection

from jobs.states import UNFINISHED
from operations.finding import COUNT_TO

FAILING_AFTER: Final = 2

MISSED: Final = "a.overdue_since IS NOT NULL AND (p.alert_after IS NOT NULL OR p.chance_over_at > a.overdue_since)"
HELD_BACK: Final = "a.held_back_since IS NOT NULL"
NOT_PROVED: Final = "a.drill_error <> ''"
DAMAGED: Final = "c.damage <> '[]'"
COPY_LATE: Final = """
(p.copy_to_id IS NOT NULL AND a.to_copy_since < %(now)s::timestamptz - make_interval(secs => p.copy_within))
"""
COPY_FAILED: Final = "COALESCE(k.error, '') <> ''"

ACTIVE: Final = "s.paused_at IS NULL AND s.retired_at IS NULL AND schedule.enabled"
"""Paused, retired and disabled ones are in that state by the choice of an operator, and raise no alert."""

# The last error of its unfinished record; empty when it has given up, until the next period.
LAST_ERROR: Final = f"""
COALESCE((SELECT ': ' || split_part(r.last_error, E'\\n', 1)
            FROM jobs_backlogrecord r
           WHERE r.kind = 'backup' AND r.subject = 'assignment:' || a.id AND r.last_error <> ''
             AND r.status IN {tuple(map(int, UNFINISHED))}), '')
"""

SUBJECT: Final = "assignment:"
OF_SUBJECT: Final = f"""
CASE WHEN rtrim(subject, '0123456789') = '{SUBJECT}'
     THEN NULLIF(substr(subject, {len(SUBJECT) + 1}, 18), '')::bigint END"""
"""The id of the assignment that a record is about; null for one of something else."""

APART: Final = "OFFSET bigint '0'"
"""The end of a subquery that the planner must not merge with the statement around it. A plain 0 becomes a constant too
late: the planner takes it for a limit, and what is around it is not shared among parallel workers.
"""


def _utc(column: str) -> str:
    return f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'"


JOINED: Final = """
  FROM sources_assignment a
  JOIN sources_source s ON s.id = a.source_id
  JOIN sources_policy p ON p.id = a.policy_id
  JOIN schedules_schedule schedule ON schedule.origin_id = p.schedule_id
"""

FINDINGS: Final = f"""
SELECT v.kind, a.id, a.policy_id, s.name AS source, o.name AS policy, v.since, v.text, c.damage
{JOINED}
  JOIN jobs_origin o ON o.id = p.schedule_id
  LEFT JOIN sources_checkround c ON c.assignment_id = a.id
  LEFT JOIN sources_copy k ON k.assignment_id = a.id AND k.repository_id = p.copy_to_id
 CROSS JOIN LATERAL (VALUES
       ('overdue', a.last_backup_at IS NOT NULL AND {MISSED}, true, a.last_backup_at,
        'no backup since ' || {_utc("a.last_backup_at")}),
       ('never', a.last_backup_at IS NULL AND {MISSED}, true, a.inserted_at, 'here since ' || {_utc("a.inserted_at")}),
       ('failing', a.failures >= {FAILING_AFTER}, true, a.first_failure_at,
        a.failures || ' failures in a row' || CASE WHEN a.failures >= {FAILING_AFTER} THEN {LAST_ERROR} END),
       ('held_back', {HELD_BACK}, true, a.held_back_since, a.held_back_why),
       ('drills', {NOT_PROVED} AND {ACTIVE}, true, NULL, a.drill_error),
       ('copies', ({COPY_LATE} OR {COPY_FAILED}) AND {ACTIVE}, {COPY_LATE} OR a.to_copy_since IS NULL,
        COALESCE(a.to_copy_since, k.copied_at),
        CASE WHEN {COPY_LATE} THEN 'one of its points has not been in its copy since ' || {_utc("a.to_copy_since")}
                                   || CASE WHEN {COPY_FAILED} THEN ' (' || k.error || ')' ELSE '' END
             ELSE 'its copy: ' || k.error END),
       ('damage', {DAMAGED}, true, c.checked_at, jsonb_array_length(c.damage) || ' damaged files')
       ) AS v(kind, holds, raises, since, text)
 WHERE v.holds AND {{chosen}}
"""

# All that may have one, by indexes and small tables, so that those in order are not looked at; OFFSET 0, so that the
# joins begin here. Its policy decides when a copy is late: that is examined for each.
MAY_HAVE_ONE: Final = f"""
  FROM (SELECT *
          FROM sources_assignment
         WHERE id IN (
               SELECT a.id FROM sources_assignment a WHERE {{in_trouble}}
                UNION ALL
               SELECT id FROM sources_assignment WHERE to_copy_since IS NOT NULL
                UNION ALL
               SELECT c.assignment_id FROM sources_checkround c WHERE {DAMAGED}
                UNION ALL
               SELECT k.assignment_id FROM sources_copy k WHERE {COPY_FAILED})
        OFFSET 0) AS a
"""


def _of_all(in_trouble: str, chosen: str) -> str:
    """The findings of all assignments, of which those that are `in_trouble` are looked at next to copies and checks:
    a condition that implies that of the index `assignment_in_trouble`.
    """
    source = JOINED.splitlines(keepends=True)[1]
    return FINDINGS.replace(source, MAY_HAVE_ONE.format(in_trouble=in_trouble)).format(chosen=chosen)


RAISED: Final = _of_all(
    f"a.failures > 0 OR a.last_backup_at IS NULL OR a.overdue_since IS NOT NULL OR {HELD_BACK} OR {NOT_PROVED}",
    f"""v.raises AND {ACTIVE}
   AND (a.overdue_since IS NOT NULL OR a.failures >= {FAILING_AFTER} OR {HELD_BACK} OR {COPY_LATE} OR {COPY_FAILED}
        OR {NOT_PROVED} OR {DAMAGED})""",
)
"""Findings that raise an alert."""

OF_A_KIND: Final = f"""v.kind IN ('held_back', 'drills', 'copies', 'damage')
   AND ({HELD_BACK} OR {NOT_PROVED} OR {COPY_LATE} OR {COPY_FAILED} OR {DAMAGED})
"""
"""Findings that the doctor shows. The second line leaves out most assignments, before anything is made of them."""

THE_LONGEST: Final = f"""
SELECT kind, id, policy_id, source, policy, since, text, damage
  FROM (SELECT *, row_number() OVER (PARTITION BY kind ORDER BY since, id) AS place
          FROM ({_of_all(f"{HELD_BACK} OR {NOT_PROVED}", OF_A_KIND)}) AS each) AS each
 WHERE place <= {COUNT_TO}
 ORDER BY place
"""


class AssignmentFinding(NamedTuple):
    """A finding of the assignment `pk`. `damage`: the damage that the last check found."""

    kind: str
    pk: int
    source: str
    since: datetime | None
    text: str
    damage: list[dict[str, Any]]


def of_the_doctor(now: datetime) -> Iterator[AssignmentFinding]:
    """The findings of the kinds of the doctor, at most COUNT_TO of each: the longest first."""
    return _found(THE_LONGEST, now)


def of(assignments: Collection[int], now: datetime) -> dict[int, list[AssignmentFinding]]:
    """Findings of these assignments, by their ids; those in order are left out."""
    found: dict[int, list[AssignmentFinding]] = {}
    sql = FINDINGS.format(chosen="a.id = ANY(%(assignments)s)")
    for each in _found(sql, now, assignments=list(assignments)) if assignments else ():
        found.setdefault(each.pk, []).append(each)
    return found


def _found(sql: str, now: datetime, **values: Any) -> Iterator[AssignmentFinding]:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"now": now, **values})
        for kind, pk, _, source, _, since, text, damage in cursor.fetchall():
            yield AssignmentFinding(kind, pk, source, since, text, json.loads(damage or "[]"))


COPIES_LATE: Final = f"""
SELECT r.name, count(*)
{JOINED}
  JOIN sources_repository r ON r.id = p.copy_to_id
 WHERE {COPY_LATE} AND {ACTIVE}
 GROUP BY r.name
"""


def copies_late(now: datetime) -> dict[str, int]:
    """The repository of copies → the number of assignments with a point that has not come there in time."""
    with connection.cursor() as cursor:
        cursor.execute(COPIES_LATE, {"now": now})
        return dict(cursor.fetchall())
