"""Metrics of each source, as `/metrics?sources=1` returns them: three series for each of its policies.

prometheus_client makes an object of each sample and writes some 60,000 of them a second: with 100,000 sources that
takes more than half of the time that Prometheus waits by default. PostgreSQL writes these lines in the same form; a
test keeps both equal.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db import connection

from fleet.status.of_all import FOUND, ranked
from sources.domain.status import BY_RANK, ProtectionStatus

NAMES = [str(BY_RANK[rank]) for rank in range(len(BY_RANK))]
"""The names of the statuses, by their ranks."""

PIECE = 10_000
"""Lines of one text."""


def _escaped(label: str) -> str:
    return rf"""replace(replace(replace({label}, '\', '\\'), E'\n', '\n'), '"', '\"')"""


# As `prometheus_client.utils.floatToGoString` writes what `datetime.timestamp` returns: `1.764363600123456e+09`.
SECONDS = """
CASE WHEN seconds > 0 AND places > 6
     THEN rtrim(left(digits, 1) || '.' || substr(digits, 2), '0.') || 'e+' || lpad((places - 1)::text, 2, '0')
     WHEN places = length(digits) THEN digits || '.0'
     ELSE seconds::text END
"""

# There is no line for a retired source, only their number.
STATUS = f"""
SELECT rank, count(*), string_agg(line, '')
  FROM (SELECT rank, row_number() OVER () AS number,
               'backupsched_source_status{{source="' || {_escaped("name")} || '",status="' ||
               (%(names)s::text[])[1 + NULLIF(rank, {ProtectionStatus.RETIRED.rank})] || E'"}} 1.0\n' AS line
          FROM (SELECT s.name, CASE
                       WHEN s.retired_at IS NOT NULL THEN {ProtectionStatus.RETIRED.rank}
                       WHEN s.paused_at IS NOT NULL THEN {ProtectionStatus.PAUSED.rank}
                       ELSE COALESCE(ranked.rank, {ProtectionStatus.PROTECTED.rank}) END AS rank
                  FROM sources_source s
                  LEFT JOIN ({ranked(FOUND)}) AS ranked ON ranked.id = s.id
                OFFSET 0) AS s) AS each
 GROUP BY rank, number / {PIECE}
"""

DATES = f"""
SELECT what, string_agg(line, '')
  FROM (SELECT row_number() OVER () AS number, what,
               'backupsched_source_' || what || '_backup_timestamp_seconds' || labels || {SECONDS} || E'\n' AS line
          FROM (SELECT '{{policy="' || {_escaped("o.name")} || '",source="' || {_escaped("s.name")} || '"}} ' AS labels,
                       a.last_backup_at, a.next_backup_at
                  FROM sources_assignment a
                  JOIN sources_source s ON s.id = a.source_id
                  JOIN sources_policy p ON p.id = a.policy_id
                  JOIN jobs_origin o ON o.id = p.schedule_id
                 WHERE s.retired_at IS NULL
                OFFSET 0) AS a
         CROSS JOIN LATERAL (VALUES ('last', a.last_backup_at), ('next', a.next_backup_at)) AS v(what, at)
         CROSS JOIN LATERAL (SELECT extract(epoch FROM at)::float8 AS seconds OFFSET 0) AS t
         CROSS JOIN LATERAL (SELECT replace(seconds::text, '.', '') AS digits,
                                    length(split_part(seconds::text, '.', 1)) AS places OFFSET 0) AS d
         WHERE at IS NOT NULL) AS each
 GROUP BY what, number / {PIECE}
 ORDER BY what
"""


def of_each(now: datetime) -> tuple[str, dict[ProtectionStatus, int]]:
    """The text for all sources that are not retired, in any order; and the numbers of sources by status."""
    pieces = _pieces(STATUS, {"now": now, "names": NAMES})
    numbers = dict.fromkeys(ProtectionStatus, 0)
    for rank, number, _ in pieces:
        numbers[BY_RANK[rank]] += number
    return "".join(_lines(text for *_, text in pieces if text)), numbers


def _lines(of_status: Iterable[str]) -> Iterator[str]:
    yield _head("source_status", "1 for the status of a source.")
    yield from of_status
    dates = _pieces(DATES, {})
    yield _head("source_last_backup_timestamp_seconds", "Start of its last backup.")
    yield from (text for what, text in dates if what == "last")
    yield _head("source_next_backup_timestamp_seconds", "When its next backup is due.")
    yield from (text for what, text in dates if what == "next")


def _pieces(sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def _head(name: str, text: str) -> str:
    return f"# HELP backupsched_{name} {text}\n# TYPE backupsched_{name} gauge\n"
