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
"""The same in the order of their ends, where the last row is counted first."""
MOST_READ = 1_000_000
"""Rows of a table that is sorted, or read as a whole."""
BYTES_PER_ROW = 250
"""Roughly, of a record or a backup."""
LOOKED_UP = {"error", "group", "schedule"}
"""Filters of records that an index serves, or that look at few."""


def is_of_few(asked: Mapping[str, Any], field: str = "id") -> bool:
    """True if an index leads to the records that were asked for: names of filters → values. `field`: the ordering."""
    if any(map(asked.get, LOOKED_UP)) or asked.get("answer") in {*ANSWERS} - {"2xx"}:
        return True
    if (subject := asked.get("subject")) and of_batch(BacklogRecord.objects.all(), str(subject)).exists():
        return True
    if asked.get("status") in STATUSES.keys() - {"succeeded"}:
        return field != "id" or few_in_status(asked["status"]) is not None
    return False


def are_few(rows: QuerySet[Any], column: str) -> bool:
    """True if an index on that column alone counts at most MOST_WALKED of the rows, which are filtered by nothing
    else."""
    return not rows.order_by(column).values(column)[MOST_WALKED : MOST_WALKED + 1]


def is_large(model: type[Model] = BacklogRecord) -> bool:
    """True if its table has more than MOST_READ rows, as the planner estimates them: by the rows of a page when it was
    last analysed, and its size now; by its size alone, if it was not analysed since it was restored, or was empty then.
    """
    pages = "pg_relation_size(oid) / current_setting('block_size')::int"
    known = f"CASE WHEN reltuples >= 0 THEN reltuples / NULLIF(relpages, 0) * ({pages}) END"
    rows = f"SELECT COALESCE({known}, pg_relation_size(oid) / %s) FROM pg_class WHERE oid = %s::regclass"
    with connection.cursor() as cursor:
        cursor.execute(rows, [BYTES_PER_ROW, model._meta.db_table])
        return bool(cursor.fetchone()[0] > MOST_READ)
