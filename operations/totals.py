"""Totals of ended attempts, by outcome and duration, since the installation began: `/metrics` shows them.

Rows of attempts are pruned and silences among them are compacted, so they cannot be counted afterwards. Each process
counts the attempts that it has settled in memory and adds them to the totals at its heartbeat: a settle writes nothing
for it. The count that a killed process had made since its last heartbeat is missing there; its attempts are in the
history.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from jobs import clock
from jobs.outcomes import ClaimedRecord
from jobs.prepared_statements import execute
from jobs.states import AttemptOutcome

SORT = "sort"
"""The key of a payload by which its attempts are counted separately, within kind and queue, such as the kind of a
source.
"""

STEPS = (0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 6 * 3_600.0, float("inf"))
"""Durations in seconds, up to which attempts are counted separately."""

ADD = """
INSERT INTO operations_attempttotal AS total (kind, queue, sort, outcome, up_to, number, seconds)
SELECT *
  FROM unnest(%(kind)s::text[], %(queue)s::text[], %(sort)s::text[], %(outcome)s::smallint[], %(up_to)s::float8[],
              %(number)s::bigint[], %(seconds)s::float8[])
    ON CONFLICT (kind, queue, sort, outcome, up_to) DO UPDATE
   SET number = total.number + EXCLUDED.number, seconds = total.seconds + EXCLUDED.seconds
"""


class TotalsKey(NamedTuple):
    """A row of the totals."""

    kind: str
    queue: str
    sort: str
    outcome: int
    up_to: float


_lock = threading.Lock()
_numbers: Counter[TotalsKey] = Counter()
_seconds: Counter[TotalsKey] = Counter()


def count(records: Iterable[ClaimedRecord], outcome: AttemptOutcome, ended_at: datetime | None) -> None:
    """Count attempts that have ended with this outcome at `ended_at` (by the database's clock; None for now)."""
    ended_at = ended_at or datetime.now(UTC) - timedelta(seconds=clock.skew)
    alike = Counter((each.kind, each.queue, each.payload.get(SORT, ""), each.started_at) for each in records)
    with _lock:
        for (kind, queue, sort, started_at), number in alike.items():
            seconds = max(0.0, (ended_at - started_at).total_seconds())
            key = TotalsKey(kind, queue, str(sort), int(outcome), STEPS[bisect_left(STEPS, seconds)])
            _numbers[key] += number
            _seconds[key] += number * seconds  # type: ignore[assignment]


def write() -> None:
    """Add the counts to the totals. Raises: django.db.Error; then they are added the next time."""
    with _lock:
        numbers, seconds = _numbers.copy(), _seconds.copy()
    if not numbers:
        return
    keys = sorted(numbers)  # rows in one order: several processes write
    columns: dict[str, Any] = {name: [getattr(key, name) for key in keys] for name in TotalsKey._fields}
    execute(ADD, columns | {"number": [numbers[key] for key in keys], "seconds": [seconds[key] for key in keys]})
    with _lock:
        _numbers.subtract(numbers)
        _seconds.subtract(seconds)
        for key in [key for key, number in _numbers.items() if not number]:
            del _numbers[key], _seconds[key]
