"""Bounds of lists of large tables, where no index leads to the rows that were asked for."""

from collections.abc import Mapping
from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet

from jobs.models import BacklogRecord
from operations.backlog.selection import ANSWERS, STATUSES, few_in_status, of_batch

MOST_WALKED = 500_000
"""Rows that a page looks at one after the other, in some tenths of a second."""
MOST_BY_END = MOST_WALKED // 2
"""The same in the order of their end, in which the last of them is counted first."""
MOST_READ = 1_000_000
"""Rows of a table that is sorted, or read as a whole."""
BYTES_PER_ROW = 250
"""Roughly, of a record or a backup."""
LOOKED_UP = {"error", "group", "schedule"}
"""Filters of records that an index serves, or that look at few."""


def is_of_few(asked: Mapping[str, Any], field: str = "id") -> bool:
    """True if an index leads to the records that were asked for: names of filters → values. `field`: the ordering."""
    if LOOKED_UP & set(asked) or asked.get("answer") in {*ANSWERS} - {"2xx"}:
        return True
    if asked.get("status") in STATUSES.keys() - {"succeeded"}:
        return field != "id" or few_in_status(asked["status"]) is not None
    subject = asked.get("subject")
    return bool(subject) and of_batch(BacklogRecord.objects.all(), str(subject)).exists()


def are_few(rows: QuerySet[Any], column: str) -> bool:
    """True if an index on that column alone counts at most MOST_WALKED of the rows, which are filtered by nothing
    else."""
    return not rows.order_by(column).values(column)[MOST_WALKED : MOST_WALKED + 1]


def is_large(model: type[Model] = BacklogRecord) -> bool:
    """True if its table has more than MOST_READ rows, as the planner estimates them; by its size, if it has not been
    analysed since it was restored.
    """
    rows = "CASE WHEN reltuples < 0 THEN pg_relation_size(oid) / %s ELSE reltuples END"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {rows} FROM pg_class WHERE oid = %s::regclass", [BYTES_PER_ROW, model._meta.db_table])
        return bool(cursor.fetchone()[0] > MOST_READ)
