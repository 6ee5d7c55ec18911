"""Bounds of lists that walk through the records where no index leads to those that were asked for."""

from collections.abc import Mapping
from typing import Any

from django.db import connection
from django.db.models import Model

from jobs.models import BacklogRecord
from operations.backlog.selection import ANSWERS, STATUSES, of_batch

MOST_WALKED = 500_000
"""Records that a page looks at one after the other, in some tenths of a second."""
MOST_BY_END = MOST_WALKED // 2
"""The same in the order of their end, in which the last of them is counted first."""
MOST_READ = 1_000_000
"""Records of a table that is sorted, or read as a whole."""
OF_FEW = {"status": STATUSES.keys() - {"succeeded"}, "answer": {*ANSWERS} - {"2xx"}}
"""Values of filters that find few among many."""
LOOKED_UP = {"error", "group", "schedule"}
"""Filters that an index serves, or that look at few."""


def is_of_few(asked: Mapping[str, Any]) -> bool:
    """True if an index leads to the records that were asked for: names of filters → values."""
    if LOOKED_UP & set(asked) or any(asked.get(name) in values for name, values in OF_FEW.items()):
        return True
    if (subject := asked.get("subject")) and of_batch(BacklogRecord.objects.all(), subject).exists():
        return True
    if since := asked.get("ended_since"):
        ended = BacklogRecord.objects.filter(finished_at__gte=since).order_by("finished_at")
        return not ended.values("finished_at")[MOST_WALKED : MOST_WALKED + 1]
    return False


def is_large(model: type[Model] = BacklogRecord) -> bool:
    """True if its table has more than MOST_READ rows, as the planner estimates them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = %s::regclass", [model._meta.db_table])
        return bool(cursor.fetchone()[0] > MOST_READ)
