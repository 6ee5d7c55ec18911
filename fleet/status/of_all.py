"""The status of all sources at once: how many are in each, which are in one, and the worst of them.

Most sources are protected, and nothing of them is looked up: one pass over the assignments and one over their
unfinished records find those of which anything else holds. Asked source by source, as `fleet.status.with_status` does
for the rows of a page, each of nine conditions is a pass of its own, over all of them. What holds is said twice by
that, here and in `fleet/status/conditions.py`; a test compares them.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from fleet.assignment_findings import DAMAGED, HELD_BACK, NOT_PROVED
from fleet.status.conditions import enabled
from jobs import states
from jobs.states import WaitingFor
from sources.domain.status import BY_RANK, PRECEDENCE, Status
from sources.models import Assignment
from sources.planning.names import BACKUPS, KIND

PLACES = {status: place for place, status in enumerate(PRECEDENCE)}
RANKS = [status.rank for status in PRECEDENCE]

DISABLED = """
SELECT p.id
  FROM sources_policy p
  JOIN schedules_schedule c ON c.origin_id = p.schedule_id
 WHERE NOT c.enabled
"""

# Of an assignment by itself, the first place in PRECEDENCE, of which DUE is the last.
BY_ITSELF = f"""
SELECT source_id, policy_id,
       CASE WHEN failures > 0 THEN {PLACES[Status.FAILING]}
            WHEN last_backup_at IS NULL THEN {PLACES[Status.NEVER]}
            WHEN overdue_since IS NOT NULL THEN {PLACES[Status.OVERDUE]}
            WHEN {HELD_BACK} OR {NOT_PROVED} THEN {PLACES[Status.DOUBTFUL]}
            ELSE {PLACES[Status.DUE]} END AS place
  FROM sources_assignment a
 WHERE failures > 0 OR last_backup_at IS NULL OR overdue_since IS NOT NULL OR {HELD_BACK} OR {NOT_PROVED}
    OR next_backup_at <= %(now)s
 UNION ALL
SELECT a.source_id, a.policy_id, {PLACES[Status.DOUBTFUL]}
  FROM sources_checkround c
  JOIN sources_assignment a ON a.id = c.assignment_id
 WHERE {DAMAGED}
 UNION ALL
SELECT a.source_id, a.policy_id, {PLACES[Status.DOUBTFUL]}
  FROM sources_repository r
  JOIN sources_policy p ON p.repository_id = r.id
  JOIN sources_assignment a ON a.policy_id = p.id
 WHERE r.away_why <> ''
"""

# Of its record on the backlog: by `one_unfinished_record_per_subject`.
BY_RECORD = f"""
SELECT a.source_id, a.policy_id, r.place
  FROM (SELECT subject,
               CASE WHEN status = {states.Status.READY} THEN {PLACES[Status.DUE]}
                    WHEN status = {states.Status.RUNNING} THEN {PLACES[Status.RUNNING]}
                    WHEN waiting_for = {WaitingFor.RECHECK} THEN {PLACES[Status.ABSENT]}
                    ELSE {PLACES[Status.WAITING]} END AS place
          FROM jobs_backlogrecord
         WHERE kind = '{KIND}' AND status IN {tuple(map(int, states.UNFINISHED))}
           AND (status <> {states.Status.RUNNING} OR queue = '{BACKUPS}')) AS r
  JOIN sources_assignment a ON 'assignment:' || a.id = r.subject
"""

WORST = """
SELECT source_id, min(place) AS place
  FROM ({}) AS each
 WHERE policy_id NOT IN ({})
 GROUP BY source_id
"""

# Of each source under an enabled policy of which more holds than that it is protected; and those in need, for whom no
# record has to be looked at.
FOUND = WORST.format(f"{BY_ITSELF} UNION ALL {BY_RECORD}", DISABLED)
IN_NEED = WORST.format(BY_ITSELF, DISABLED)

# The ranks of PRECEDENCE that are found so, of sources that are neither paused nor retired; then what is in no policy.
RANKED = f"""
SELECT s.id, s.name, (ARRAY{RANKS})[found.place + 1] AS rank
  FROM ({FOUND}) AS found
  JOIN sources_source s ON s.id = found.source_id
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
 UNION ALL
SELECT s.id, s.name, {Status.UNPROTECTED.rank}
  FROM sources_source s
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
   AND NOT EXISTS (SELECT FROM sources_assignment a WHERE a.source_id = s.id AND a.policy_id NOT IN ({DISABLED}))
"""

LOOK = f"""
  WITH ranked AS MATERIALIZED ({RANKED})
SELECT NULL::bigint AS id, rank, count(*)
  FROM ranked
 GROUP BY rank
 UNION ALL
SELECT NULL::bigint, {Status.RETIRED.rank}, count(*) FROM sources_source WHERE retired_at IS NOT NULL
 UNION ALL
SELECT NULL::bigint, {Status.PAUSED.rank}, count(*)
  FROM sources_source
 WHERE paused_at IS NOT NULL AND retired_at IS NULL
 UNION ALL
SELECT NULL::bigint, {Status.PROTECTED.rank}, count(*) - (SELECT count(*) FROM ranked)
  FROM sources_source
 WHERE paused_at IS NULL AND retired_at IS NULL
 UNION ALL
(SELECT id, rank, 0
   FROM ranked
  WHERE rank = ANY(%(wanted)s)
  ORDER BY rank, name
  LIMIT %(most)s)
"""

RANK = f"""CASE WHEN s.retired_at IS NOT NULL THEN {Status.RETIRED.rank}
            WHEN s.paused_at IS NOT NULL THEN {Status.PAUSED.rank}
            ELSE COALESCE(ranked.rank, {Status.PROTECTED.rank}) END"""

WORST_FIRST = f"""
SELECT s.id, {RANK}
  FROM sources_source s
  LEFT JOIN ({RANKED}) AS ranked ON ranked.id = s.id
 WHERE s.id IN ({{chosen}})
 ORDER BY 2, s.name
 LIMIT %s OFFSET %s
"""

OLDEST_SUCCESS_FIRST = f"""
SELECT s.id, {RANK}
  FROM sources_source s
  LEFT JOIN ({RANKED}) AS ranked ON ranked.id = s.id
  LEFT JOIN (SELECT source_id, max(last_backup_at) AS at FROM sources_assignment GROUP BY source_id) AS last
    ON last.source_id = s.id
 WHERE s.id IN ({{chosen}})
 ORDER BY 2, last.at NULLS FIRST, s.name
 LIMIT %s OFFSET %s
"""
"""Among equals."""

ACTIVE = Q(paused_at=None, retired_at=None)


def look(
    now: datetime, wanted: Collection[Status] = (), most: int | None = 0
) -> tuple[dict[Status, int], dict[int, Status]]:
    """How many sources are in each status, the worst first, also those that no source is in; and the first `most`
    (None: all) of those that are in one of the `wanted` ones, by their ids: the worst first, and then by name. One
    statement."""
    values: dict[str, Any] = {"now": now, "wanted": [status.rank for status in wanted], "most": most}
    with connection.cursor() as cursor:
        cursor.execute(LOOK, values)
        rows = cursor.fetchall()
    numbers = {rank: number for source, rank, number in rows if source is None}
    first = {source: BY_RANK[rank] for source, rank, _ in rows if source is not None}
    return {status: numbers.get(status.rank, 0) for status in Status}, first


def in_status(statuses: Collection[Status], now: datetime) -> Q:
    """What holds of the sources that are in one of these."""
    # not NOT IN: of a set that the planner takes for larger than `work_mem` each row would walk through all of it
    under = Exists(Assignment.objects.filter(source=OuterRef("pk"), policy__in=enabled()))
    q = Q()
    if found := sorted(PLACES[status] for status in statuses if status in PLACES and status != Status.PROTECTED):
        sql = IN_NEED if found[-1] <= PLACES[Status.DOUBTFUL] else FOUND
        q |= ACTIVE & Q(pk__in=_ids(sql, now, "WHERE place = ANY(%s)", found, once=True))
    if Status.PROTECTED in statuses:
        q |= ACTIVE & Q(under) & ~Q(pk__in=_ids(FOUND, now))
    if Status.UNPROTECTED in statuses:
        q |= ACTIVE & ~Q(under)
    if Status.PAUSED in statuses:
        q |= Q(paused_at__isnull=False, retired_at=None)
    if Status.RETIRED in statuses:
        q |= Q(retired_at__isnull=False)
    return q or Q(pk__in=[])


def worst_first(
    sources: QuerySet[Any], now: datetime, *, first: int = 0, most: int | None = None, ordered: str = WORST_FIRST
) -> dict[int, Status]:
    """The ids of `most` of these sources (None: all) from the number `first` on, counted from 0, and their status: the
    worst first, and then by name or as `ordered` says."""
    chosen, values = sources.order_by().values("pk").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(ordered.replace("%(now)s", "%s").format(chosen=chosen), (now, *values, most, first))
        return {pk: BY_RANK[rank] for pk, rank in cursor.fetchall()}


def _ids(found: str, now: datetime, where: str = "", *values: Any, once: bool = False) -> RawSQL:
    """`once`: as an array, by which sources are looked up. As a set, a page in the order of names was a loop over
    sources, each of which walked through the set."""
    sql = f"SELECT source_id FROM ({found.replace('%(now)s', '%s')}) AS found {where}"
    sql = f"SELECT unnest(ARRAY({sql}))" if once else sql
    return RawSQL(sql, (now, *values))  # noqa: S611 - all of it is ours
