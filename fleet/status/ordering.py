"""Pages of sources, the worst first.

A user looks at one page, and mostly the first. Sources that need attention are found by an index without any record,
and if these fill the page nothing else is looked at; the status of few sources is found for these alone. Only a page
after them, among many sources, makes all others be put in order.
"""

from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from fleet.status.of_all import FOUND, FOUND_OF_SOME, IDS, IN_NEED, RANKS, by_place, ranked
from sources.domain.status import BY_RANK, Status

FEW = 1000
"""The most sources that are looked up one by one."""

BY_NAME, OLDEST_SUCCESS_FIRST = "s.name", "last.at NULLS FIRST, s.name"
"""Orders among sources of equal status."""

LAST = """
  LEFT JOIN (SELECT source_id, max(last_backup_at) AS at FROM sources_assignment GROUP BY source_id) AS last
    ON last.source_id = s.id
"""
LAST_OF_FEW = """
 CROSS JOIN LATERAL (SELECT max(a.last_backup_at) AS at FROM sources_assignment a WHERE a.source_id = s.id) AS last
"""

FIRST = f"""
SELECT s.id, (ARRAY{RANKS})[found.place + 1]
  FROM ({IN_NEED}) AS found
  JOIN sources_source s ON s.id = found.source_id
{{last}}
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL AND s.id IN ({{chosen}})
 ORDER BY 2, {{order}}
 LIMIT %s OFFSET %s
"""

ALL = f"""
SELECT s.id, CASE WHEN s.retired_at IS NOT NULL THEN {Status.RETIRED.rank}
                  WHEN s.paused_at IS NOT NULL THEN {Status.PAUSED.rank}
                  ELSE COALESCE(ranked.rank, {Status.PROTECTED.rank}) END
  FROM sources_source s
  LEFT JOIN ({{ranked}}) AS ranked ON ranked.id = s.id
{{last}}
 WHERE s.id {{chosen}}
 ORDER BY 2, {{order}}
 LIMIT %s OFFSET %s
"""


def worst_first(
    sources: QuerySet[Any],
    now: datetime,
    *,
    first: int = 0,
    most: int | None = None,
    order: str = BY_NAME,
    few: bool = False,
) -> dict[int, Status]:
    """The ids of `most` of these sources (None for all) from the number `first` on, counted from 0, and their status:
    the worst first, and then by name or as given by `order`. `few`: True if they are known to be FEW or less.
    """
    last = LAST_OF_FEW if order == OLDEST_SUCCESS_FIRST else ""
    chosen, values = sources.order_by().values("pk").query.sql_with_params()
    if few:
        sql, instants = by_place(ranked(FOUND_OF_SOME, some=True), now)
        sql = ALL.format(ranked=sql, chosen=f"= {IDS}", order=order, last=last)
        return _asked(
            f"WITH few AS MATERIALIZED (SELECT ARRAY({chosen}) AS ids) {sql}", *values, *instants, most, first
        )
    if most is not None:
        page = _asked(FIRST.format(chosen=chosen, order=order, last=last), *values, most, first)
        if len(page) == most:
            return page
    sql, instants = by_place(ranked(FOUND), now)
    sql = ALL.format(ranked=sql, chosen=f"IN ({chosen})", order=order, last=LAST if last else "")
    return _asked(sql, *instants, *values, most, first)


def _asked(sql: str, *values: Any) -> dict[int, Status]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return {pk: BY_RANK[rank] for pk, rank in cursor.fetchall()}
