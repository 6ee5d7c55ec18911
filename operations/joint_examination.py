"""The examination of several conditions together, as the round of a minute does it.

Nearly always there is nothing to find. So a condition may name a query that yields a row wherever it may have an alert;
all these queries are one statement, and only the conditions with a row are examined.
"""

import logging
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.utils import Error

from operations.finding import Condition, Finding, Look, reading_only, rows

log = logging.getLogger(__name__)

PARAMETER = re.compile(r"%\(([a-z_]+)\)s")


def examine_together(conditions: Sequence[Condition], look: Look) -> list[Finding]:
    """The findings of several conditions that may have alerts, in one transaction. A condition that fails ends the
    transaction, and the next one begins another: no condition is examined twice, and a slow one costs the round its
    limit once. All are examined if the common query fails.

    Raises: django.db.Error when the database is away.
    """
    found, left, is_narrowed = list[Finding](), deque(conditions), False
    while left:
        asked = None
        try:
            with reading_only():
                if not is_narrowed:
                    left = deque(_with_an_alert(left, look))
                    is_narrowed = True
                while left:
                    asked = left.popleft()
                    found += asked.found(look)
        except Exception as error:  # a row that cannot be read must not hide the findings about others
            if asked:
                found += asked.failed(error)
            elif is_narrowed or _is_away(error):
                raise
            else:
                log.warning("cannot ask where there may be alerts, so all conditions are examined: %s", error)
                is_narrowed = True
    return found


def _with_an_alert(conditions: Iterable[Condition], look: Look) -> list[Condition]:
    """The conditions of which there may be an alert, by their queries. Each is counted, as it is read by `find`: with
    EXISTS the planner may read a whole table for a row that is not there."""
    values: dict[str, Any] = {}
    counts = list[str]()
    asked = [each for each in conditions if each.alert_where]
    for condition in asked:
        sql, its = condition.alert_where(look) if condition.alert_where else ("", {})
        name = condition.kind
        values |= {f"{name}_{key}": value for key, value in its.items()}
        renamed = PARAMETER.sub(rf"%({name}_\1)s", sql)
        counts.append(f"(SELECT count(*) FROM ({renamed}) AS {name})")
    if not asked:
        return list(conditions)
    [answers] = rows(f"SELECT {', '.join(counts)}", **values)
    nothing = {each.kind for each, count in zip(asked, answers, strict=True) if not count}
    return [each for each in conditions if each.kind not in nothing]


def _is_away(error: Exception) -> bool:
    return isinstance(error, Error) and not connection.is_usable()
