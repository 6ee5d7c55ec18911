"""The status of all sources at once: the number in each, the sources in one, and the worst of them.

Most sources are protected, and nothing is looked up for them: partial indexes list those that are in trouble by
themselves and those that are set aside, and one pass over the assignments with their unfinished records finds all
others. Source by source, as `fleet.status.with_status` does for the rows of a page, each of nine conditions would be a
separate pass over all sources. So the conditions are written twice, here and in `fleet/status/conditions.py`; a test
compares them.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q
from django.db.models.expressions import RawSQL

from fleet.assignment_findings import APART, DAMAGED, HELD_BACK, NOT_PROVED, OF_SUBJECT, SUBJECT
from jobs import states
from jobs.states import WaitingFor
from sources.domain.status import BY_RANK, PRECEDENCE, ProtectionStatus
from sources.planning.names import BACKUPS, KIND

PLACES = {status: place for place, status in enumerate(PRECEDENCE)}
RANKS = [status.rank for status in PRECEDENCE]

# APART, so that each assignment is compared with the policies alone, and not with all schedules, too.
ENABLED = f"""
SELECT p.id
  FROM sources_policy p
  JOIN schedules_schedule c ON c.origin_id = p.schedule_id
 WHERE c.enabled
{APART}
"""

# The first place in PRECEDENCE of an assignment by itself: served by `assignment_in_trouble`, which has few
# assignments.
IN_TROUBLE = f"""
SELECT a.source_id, a.policy_id,
       CASE WHEN a.failures > 0 THEN {PLACES[ProtectionStatus.FAILING]}
            WHEN a.last_backup_at IS NULL THEN {PLACES[ProtectionStatus.NEVER]}
            WHEN a.overdue_since IS NOT NULL THEN {PLACES[ProtectionStatus.OVERDUE]}
            ELSE {PLACES[ProtectionStatus.DOUBTFUL]} END AS place
  FROM sources_assignment a
 WHERE (a.failures > 0 OR a.last_backup_at IS NULL OR a.overdue_since IS NOT NULL OR {HELD_BACK} OR {NOT_PROVED})
       {{some}}
 UNION ALL
SELECT a.source_id, a.policy_id, {PLACES[ProtectionStatus.DOUBTFUL]}
  FROM sources_checkround c
  JOIN sources_assignment a ON a.id = c.assignment_id
 WHERE {DAMAGED} {{some}}
 UNION ALL
SELECT a.source_id, a.policy_id, {PLACES[ProtectionStatus.DOUBTFUL]}
  FROM sources_repository r
  JOIN sources_policy p ON p.repository_id = r.id
  JOIN sources_assignment a ON a.policy_id = p.id
 WHERE r.away_why <> '' {{some}}
"""

# The place by its record on the backlog, by `one_unfinished_record_per_subject`. APART, so that each subject is read
# once, and not again in the comparison of the join.
PLACE_OF_RECORD = f"""
SELECT {OF_SUBJECT} AS assignment,
       CASE WHEN status = {states.Status.READY} THEN {PLACES[ProtectionStatus.DUE]}
            WHEN status = {states.Status.RUNNING} THEN {PLACES[ProtectionStatus.RUNNING]}
            WHEN waiting_for = {WaitingFor.RECHECK} THEN {PLACES[ProtectionStatus.ABSENT]}
            ELSE {PLACES[ProtectionStatus.WAITING]} END AS place
  FROM jobs_backlogrecord
 WHERE kind = '{KIND}' AND status IN {tuple(map(int, states.UNFINISHED))}
   AND (status <> {states.Status.RUNNING} OR queue = '{BACKUPS}') {{of}}
{APART}
"""

# By its record or its date. In a period that has begun most assignments have a record: to look each of these up by its
# key would take longer than to read all.
BY_WORK = f"""
SELECT a.source_id, a.policy_id,
       LEAST(r.place, CASE WHEN a.next_backup_at <= %(now)s THEN {PLACES[ProtectionStatus.DUE]} END) AS place
  FROM sources_assignment a
  LEFT JOIN ({PLACE_OF_RECORD.format(of="{subjects}")}) AS r ON r.assignment = a.id
 WHERE (r.place IS NOT NULL OR a.next_backup_at <= %(now)s) {{some}}
"""

# By a record that runs or waits, which precedes those that are due: neither their records nor any date is looked at.
BEFORE_DUE = f"""
SELECT a.source_id, a.policy_id, r.place
  FROM sources_assignment a
  JOIN ({PLACE_OF_RECORD.format(of=f"AND status <> {states.Status.READY}")}) AS r ON r.assignment = a.id
"""
IDS = "ANY((SELECT ids FROM few)::bigint[])"
"""The ids of some sources, which a statement names `few` in its WITH: as one array, by which indexes are asked."""
SOME = f"AND a.source_id = {IDS}"
THEIR_SUBJECTS = f"""
AND subject = ANY(ARRAY(SELECT '{SUBJECT}' || a.id FROM sources_assignment a WHERE a.source_id = {IDS}))
"""

# The sources without an assignment, then those none of whose assignments is under an enabled policy.
UNPROTECTED = f"""
SELECT s.id
  FROM sources_source s
 WHERE NOT EXISTS (SELECT FROM sources_assignment a WHERE a.source_id = s.id)
 UNION ALL
SELECT DISTINCT d.source_id
  FROM sources_assignment d
  JOIN sources_policy p ON p.id = d.policy_id
  JOIN schedules_schedule c ON c.origin_id = p.schedule_id
 WHERE NOT c.enabled
   AND NOT EXISTS (SELECT FROM sources_assignment a JOIN ({ENABLED}) AS enabled ON enabled.id = a.policy_id
                    WHERE a.source_id = d.source_id)
"""


def _worst(*of_assignments: str, some: bool = False) -> str:
    """The worst place of each source under an enabled policy; if `some`, only that of the sources in `few`."""
    each = " UNION ALL ".join(of_assignments)
    each = each.replace("{some}", SOME if some else "").replace("{subjects}", THEIR_SUBJECTS if some else "")
    return f"""
SELECT each.source_id, min(each.place) AS place
  FROM ({each}) AS each
  JOIN ({ENABLED}) AS enabled ON enabled.id = each.policy_id
 GROUP BY each.source_id
"""


# Each source with more to it than being protected; those that are not merely due; and those in need, for which no
# record is looked at.
FOUND = _worst(IN_TROUBLE, BY_WORK)
NOT_MERELY_DUE = _worst(IN_TROUBLE, BEFORE_DUE)
FOUND_OF_SOME = _worst(IN_TROUBLE, BY_WORK, some=True)
IN_NEED = _worst(IN_TROUBLE)

SET_ASIDE = "SELECT id FROM sources_source WHERE paused_at IS NOT NULL OR retired_at IS NOT NULL"
"""Served by `source_set_aside`."""


def ranked(found: str, *, some: bool = False) -> str:
    """The ranks of the sources found in this way, and of those in no policy, if they are neither paused nor retired; if
    `some`, only of the sources in `few`.
    """
    return f"""
SELECT each.id, each.rank
  FROM (SELECT found.source_id AS id, (ARRAY{RANKS})[found.place + 1] AS rank FROM ({found}) AS found
         UNION ALL
        SELECT id, {ProtectionStatus.UNPROTECTED.rank}
          FROM ({UNPROTECTED}) AS none {f"WHERE id = {IDS}" if some else ""}
       ) AS each
 WHERE NOT EXISTS (SELECT FROM ({SET_ASIDE}) AS aside WHERE aside.id = each.id)
"""


# The rank at which those that are named end, so that no name of a later one is read; above all if they do not end.
LAST = """
COALESCE((SELECT min(rank)
            FROM (SELECT rank, sum(count(*)) OVER (ORDER BY rank) AS ends
                    FROM ranked
                   WHERE rank = ANY(%(wanted)s)
                   GROUP BY rank) AS each
           WHERE ends >= %(most)s), 32767)
"""

LOOK = """
  WITH ranked AS MATERIALIZED ({ranked})
SELECT NULL::bigint AS id, rank, count(*)
  FROM ranked
 GROUP BY rank
 UNION ALL
SELECT NULL::bigint, {retired}, count(*) FROM sources_source WHERE retired_at IS NOT NULL
 UNION ALL
SELECT NULL::bigint, {paused}, count(*)
  FROM sources_source
 WHERE paused_at IS NOT NULL AND retired_at IS NULL
 UNION ALL
SELECT NULL::bigint, {protected},
       count(*) - (SELECT count(*) FROM ranked) - (SELECT count(*) FROM ({aside}) AS aside)
  FROM sources_source
 UNION ALL
(SELECT s.id, ranked.rank, 0
   FROM ranked
   JOIN sources_source s ON s.id = ranked.id
  WHERE ranked.rank = ANY(%(wanted)s) AND ranked.rank <= {last}
  ORDER BY ranked.rank, s.name
  LIMIT %(most)s)
"""

LOOK_AT_ALL, LOOK_AT_NEED = (
    LOOK.format(
        ranked=ranked(found), retired=ProtectionStatus.RETIRED.rank, paused=ProtectionStatus.PAUSED.rank,
        protected=ProtectionStatus.PROTECTED.rank, aside=SET_ASIDE, last=LAST,
    )
    for found in (FOUND, IN_NEED)
)  # fmt: skip

ACTIVE = Q(paused_at=None, retired_at=None)


def look(
    now: datetime, wanted: Collection[ProtectionStatus] = (), most: int | None = 0, *, need_alone: bool = False
) -> tuple[dict[ProtectionStatus, int], dict[int, ProtectionStatus]]:
    """The number of sources in each status, the worst first, also for statuses without a source; and the first `most`
    (None for all) of those in one of the `wanted` statuses, by their ids: the worst first, and then by name. One
    statement.

    `need_alone`: protected sources are counted as `protected`, whether it runs, waits or is due, and no record is read.
    """
    values: dict[str, Any] = {"now": now, "wanted": [status.rank for status in wanted], "most": most}
    with connection.cursor() as cursor:
        cursor.execute(LOOK_AT_NEED if need_alone else LOOK_AT_ALL, values)
        rows = cursor.fetchall()
    numbers = {rank: number for source, rank, number in rows if source is None}
    first = {source: BY_RANK[rank] for source, rank, _ in rows if source is not None}
    return {status: numbers.get(status.rank, 0) for status in ProtectionStatus}, first


def ranks(now: datetime) -> dict[int, int]:
    """The rank of each source that is neither protected, nor paused, nor retired, by its id. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(ranked(FOUND), {"now": now})
        return dict(cursor.fetchall())


def in_status(statuses: Collection[ProtectionStatus], now: datetime) -> Q:
    """The condition of sources that are in one of these statuses now. Their ids are looked up here, once for the count
    and the page of a list.
    """
    q, of_found, values = Q(), list[str](), tuple[Any, ...]()
    if found := sorted(
        PLACES[status] for status in statuses if status in PLACES and status != ProtectionStatus.PROTECTED
    ):
        sql, values = by_place(_up_to(found[-1]), now)
        of_found.append(f"SELECT source_id FROM ({sql}) AS found WHERE place = ANY(%s)")
        values = (*values, found)
    if ProtectionStatus.UNPROTECTED in statuses:
        of_found.append(f"SELECT id FROM ({UNPROTECTED}) AS none")
    if of_found:  # as one array: for two of them the planner reads all sources
        q |= ACTIVE & Q(pk__in=ids_of(" UNION ALL ".join(of_found), *values))
    if ProtectionStatus.PROTECTED in statuses:
        # those set aside are left out by their ids, too: so the rest is counted in an index
        sql, values = by_place(f"SELECT id FROM ({ranked(FOUND)}) AS found UNION ALL {SET_ASIDE}", now)
        q |= ~Q(pk__in=ids_of(sql, *values))
    if ProtectionStatus.PAUSED in statuses:
        q |= Q(paused_at__isnull=False, retired_at=None)
    if ProtectionStatus.RETIRED in statuses:
        q |= Q(retired_at__isnull=False)
    return q or Q(pk__in=[])


def _up_to(place: int) -> str:
    """The statement that finds the worst place of each source, if it is not after this one."""
    if place <= PLACES[ProtectionStatus.DOUBTFUL]:
        return IN_NEED
    return NOT_MERELY_DUE if place < PLACES[ProtectionStatus.DUE] else FOUND


def ids_of(sql: str, *values: Any) -> RawSQL:
    """The ids that a statement finds now, for a condition. They pass as the text of one array: 100,000 numbers would
    take Python longer than the statement takes.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ARRAY({sql})::text", values)
        [found] = cursor.fetchone()
    return RawSQL("SELECT unnest(%s::bigint[])", (found,))


def by_place(sql: str, now: datetime) -> tuple[str, tuple[Any, ...]]:
    """The statement for Django, which passes values by their place: `now`, as often as it occurs there."""
    return sql.replace("%(now)s", "%s"), (now,) * sql.count("%(now)s")
