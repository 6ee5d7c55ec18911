"""Pages of sources, the worst first.

A user looks at one page, and mostly the first. Sources that need attention are found by an index without any record,
and if these fill the page nothing else is looked at; the status of few sources is found for these alone. Only a page
after them, among many sources, makes all others be put in order.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import DateTimeField, Exists, Max, Min, OuterRef, QuerySet, Value

from fleet.status.of_all import FOUND, FOUND_OF_SOME, IDS, IN_NEED, RANKS, ranked
from sources.domain.status import BY_RANK, ProtectionStatus
from sources.models import Assignment

FEW = 1000
"""The most sources that are looked up one by one."""

BY_NAME, OLDEST_SUCCESS_FIRST = "name", "at NULLS FIRST, name"
"""Orders among sources of equal status."""

LAST = """
  LEFT JOIN (SELECT source_id, max(last_backup_at) AS at FROM sources_assignment GROUP BY source_id) AS last
    ON last.source_id = s.id
"""
LAST_OF_FEW = """
 CROSS JOIN LATERAL (SELECT max(a.last_backup_at) AS at FROM sources_assignment a WHERE a.source_id = s.id) AS last
"""
SET_ASIDE = (
    f"CASE WHEN s.retired_at IS NOT NULL THEN {ProtectionStatus.RETIRED.rank} ELSE {ProtectionStatus.PAUSED.rank} END"
)
IS_ACTIVE = "s.paused_at IS NULL AND s.retired_at IS NULL"

FIRST = f"""
SELECT s.id, (ARRAY{RANKS})[found.place + 1] AS rank, s.name, {{at}} AS at
  FROM ({IN_NEED}) AS found
  JOIN sources_source s ON s.id = found.source_id
{{last_of_few}}
 WHERE {IS_ACTIVE} AND {{chosen}}
 ORDER BY rank, {{order}}
 LIMIT {{most}} OFFSET {{first}}
"""

OF_FEW = f"""
  WITH few AS MATERIALIZED (SELECT ARRAY({{ids}}) AS ids)
SELECT s.id, CASE WHEN {IS_ACTIVE} THEN COALESCE(ranked.rank, {ProtectionStatus.PROTECTED.rank})
                  ELSE {SET_ASIDE} END AS rank, s.name, {{at}} AS at
  FROM sources_source s
  LEFT JOIN ({ranked(FOUND_OF_SOME, some=True)}) AS ranked ON ranked.id = s.id
{{last_of_few}}
 WHERE s.id = {IDS}
 ORDER BY rank, {{order}}
 LIMIT {{most}} OFFSET {{first}}
"""

# Three parts, one after the other: sources that are not merely protected, which alone are sorted by rank; protected
# ones; those set aside. Each begins where the one before ends, and a part that the page does not reach is not read,
# since its LIMIT is 0. In the first part, names are read and sorted only for the ranks that the page reaches.
NUMBER, NUMBER_ACTIVE = "(SELECT number FROM first_part)", "(SELECT number FROM both_parts)"
ALL = f"""
  WITH ranked AS MATERIALIZED (SELECT s.id, s.rank FROM ({ranked(FOUND)}) AS s WHERE {{chosen}}),
       of_rank AS MATERIALIZED (
           SELECT rank, ends - number AS begins, ends
             FROM (SELECT rank, count(*) AS number, (sum(count(*)) OVER (ORDER BY rank))::bigint AS ends
                     FROM ranked
                    GROUP BY rank) AS each),
       first_part AS MATERIALIZED (SELECT count(*) AS number FROM ranked),
       both_parts AS MATERIALIZED (
           SELECT count(*) AS number FROM sources_source s WHERE {IS_ACTIVE} AND {{chosen}})
SELECT id, rank
  FROM ((SELECT s.id, ranked.rank, s.name, {{at}} AS at
           FROM of_rank
           JOIN ranked USING (rank)
           JOIN sources_source s ON s.id = ranked.id
{{last_of_few}}
          WHERE of_rank.ends > {{first}} AND of_rank.begins < {{end}}
          ORDER BY rank, {{order}}
          LIMIT {{most}} OFFSET {{first}} - COALESCE((SELECT min(begins) FROM of_rank WHERE ends > {{first}}), 0))
         UNION ALL
        (SELECT s.id, {ProtectionStatus.PROTECTED.rank}, s.name, {{at}} AS at
           FROM sources_source s
{{last}}
          WHERE {IS_ACTIVE} AND {{chosen}} AND NOT EXISTS (SELECT FROM ranked WHERE ranked.id = s.id)
          ORDER BY {{order}}
          LIMIT LEAST({{most}}, GREATEST(0, {{end}} - {NUMBER})) OFFSET GREATEST(0, {{first}} - {NUMBER}))
         UNION ALL
        (SELECT s.id, {SET_ASIDE} AS rank, s.name, {{at}} AS at
           FROM sources_source s
{{last_of_few}}
          WHERE NOT ({IS_ACTIVE}) AND {{chosen}}
          ORDER BY rank, {{order}}
          LIMIT CASE WHEN {NUMBER} >= {{end}} THEN 0
                     ELSE LEAST({{most}}, GREATEST(0, {{end}} - {NUMBER_ACTIVE})) END
         OFFSET CASE WHEN {NUMBER} >= {{end}} THEN 0 ELSE GREATEST(0, {{first}} - {NUMBER_ACTIVE}) END)) AS page
 ORDER BY rank, {{order}}
"""
DATES = {"last_backup_at": Max, "proved_at": Max, "next_backup_at": Min}
"""Dates of a source: of which of its assignments each is."""
MOST = 10**9
"""Rows of a page that has all."""


def _number_in_need() -> int:
    """The number of sources with which `FIRST` could fill a page if all of them were chosen."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({IN_NEED}) AS found")
        return int(cursor.fetchone()[0])


def worst_first(
    sources: QuerySet[Any],
    now: datetime,
    *,
    first: int = 0,
    most: int | None = None,
    order: str = BY_NAME,
    few: bool = False,
) -> dict[int, ProtectionStatus]:
    """The ids of `most` of these sources (None for all) from the number `first` on, counted from 0, and their status:
    the worst first, and then by name or as given by `order`. `few`: True if they are known to be FEW or less.
    """
    by_success, wanted = order == OLDEST_SUCCESS_FIRST, MOST if most is None else int(most)
    try:
        ids, values = _named(*sources.order_by().values("pk").query.sql_with_params())
    except EmptyResultSet:  # without asking the database
        return {}
    values["now"] = now
    parts = {
        "ids": ids, "order": order, "first": int(first), "most": wanted, "end": int(first) + wanted,
        "chosen": f"s.id IN ({ids})" if sources.query.where else "TRUE", "at": "last.at" if by_success else "NULL",
        "last": LAST if by_success else "", "last_of_few": LAST_OF_FEW if by_success else "",
    }  # fmt: skip
    if few:
        return _asked(OF_FEW.format(**parts), values)
    if most is not None and (not first or first + most <= _number_in_need()):
        page = _asked(FIRST.format(**parts), values)
        if len(page) == most:
            return page
    return _asked(ALL.format(**parts), values)


def by_date(sources: QuerySet[Any], order: str, first: int, most: int) -> list[int]:
    """The ids of `most` of these sources from the number `first` on, counted from 0, by one of their DATES, with a
    minus for descending, and then the newest first. All assignments are read once: to look up those of each source
    takes twice as long.
    """
    field = order.removeprefix("-")
    chosen = sources.order_by().values("pk")
    of_chosen = Assignment.objects.filter(source__in=chosen) if sources.query.where else Assignment.objects.all()
    dated = of_chosen.order_by().values("source").annotate(at=DATES[field](field)).values_list("source", "at")
    without = chosen.filter(~Exists(Assignment.objects.filter(source=OuterRef("pk"))))
    rows = dated.union(without.values_list("pk", Value(None, DateTimeField())), all=True)
    page = rows.order_by(order.replace(field, "at"), "-source")[first : first + most]
    return [pk for pk, _ in page]


def _named(sql: str, values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """A statement of Django's with its values by name, so that it can occur several times within another one."""
    names = [f"value_{number}" for number in range(len(values))]
    left = iter(names)
    text = re.sub("%%|%s", lambda found: found[0] if found[0] == "%%" else f"%({next(left)})s", sql)
    return text, dict(zip(names, values, strict=True))


def _asked(sql: str, values: dict[str, Any]) -> dict[int, ProtectionStatus]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return {pk: BY_RANK[rank] for pk, rank, *_ in cursor.fetchall()}
