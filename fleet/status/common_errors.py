"""Sources that fail alike: by the first line of the error of the last attempt, unless there are other problems with
them.
"""

from collections.abc import Collection
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from fleet.status.conditions import DOUBTFUL
from fleet.status.of_all import ids_of
from jobs.states import UNFINISHED, Status
from sources.models import Assignment, Source
from sources.planning.names import KIND

LONGEST_ERROR = 300
"""Characters by which errors are alike: they are part of an address."""

# The record of each on the backlog, or, only without one, the last dead letter that it left: served by
# `one_unfinished_record_per_subject` and `backups_of_subject`, which is walked back through a month of successes where
# there is no dead letter. OFFSET 0: failing assignments are looked up one by one, once the joins have found them. As a
# condition of the joins, the look-ups cost so much that the planner considers all joins equally good, and it chose one
# that read 61 million rows for 1,500 failing sources.
LINES = f"""
SELECT source_id, left(split_part(record.last_error, E'\\n', 1), {LONGEST_ERROR}) AS line
  FROM (SELECT failing.source_id,
               COALESCE(
               (SELECT last_error
                  FROM jobs_backlogrecord
                 WHERE kind = '{KIND}' AND subject = 'assignment:' || failing.id
                   AND status IN {tuple(map(int, UNFINISHED))}),
               (SELECT last_error
                  FROM jobs_backlogrecord
                 WHERE kind = '{KIND}' AND subject = 'assignment:' || failing.id AND finished_at IS NOT NULL
                   AND status = {Status.FAILED}
                 ORDER BY finished_at DESC
                 LIMIT 1)) AS last_error
          FROM ({{failing}}) AS failing
        OFFSET 0) AS record
 WHERE record.last_error <> ''
"""


def lines_of(sources: Collection[Source]) -> dict[int, str]:
    """Source → the line, for those of these sources that have one. A source whose backups are also in doubt has none,
    since that doubt has to be shown.
    """
    if not sources:
        return {}
    sql, values = _lines(_failing().filter(source__in=sources))
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return dict(cursor.fetchall())


def numbers(lines: Collection[str]) -> dict[str, int]:
    """Line → the number of sources that fail by it."""
    sql, values = _lines(_failing())
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT line, count(DISTINCT source_id) FROM ({sql}) AS found WHERE line = ANY(%s) GROUP BY line",
            (*values, list(lines)),
        )
        return dict(cursor.fetchall())


def failing_alike(line: str) -> Q:
    """The condition of sources that fail by this line now: their ids, looked up here."""
    sql, values = _lines(_failing())
    return Q(pk__in=ids_of(f"SELECT source_id FROM ({sql}) AS found WHERE line = %s", *values, line))


def _failing() -> QuerySet[Any]:
    return Assignment.objects.active().filter(failures__gt=0).exclude(DOUBTFUL)


def _lines(failing: QuerySet[Any]) -> tuple[str, tuple[Any, ...]]:
    sql, values = failing.order_by().values("id", "source_id").query.sql_with_params()
    return LINES.format(failing=sql), tuple(values)
