"""All sources by the first reason why their backups do not run: each source under each policy counts once."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from jobs.models import BacklogRecord
from jobs.states import FINISHED, UNFINISHED, Status, WaitingFor
from operations.backlog.reason import WHAT, Code
from operations.backlog.reasons import hindrances
from operations.backlog.surroundings import Surroundings
from sources.planning.names import KIND, REMOVAL

NAMED = 3

# One pass over the assignments, and over their unfinished records by `one_unfinished_record_per_subject`. Ready records
# are distinguished by queue and lane, since these decide their obstacles; `closed`: its window has closed; `last`: the
# outcome that tells whether a record that is looked at again was silent or put off. The first names of a group are
# picked from it: `array_agg(name ORDER BY name)` would sort all names.
GROUPS = f"""
WITH record AS MATERIALIZED (
    SELECT id, subject, status, waiting_for, queue, lane, closes_at <= %(now)s AS closed,
           CASE WHEN waiting_for = {WaitingFor.RECHECK} THEN (
                SELECT outcome FROM jobs_attempt t WHERE t.record_id = b.id AND t.number = b.attempt) END AS last
      FROM jobs_backlogrecord b
     WHERE kind = '{KIND}' AND status IN {tuple(map(int, UNFINISHED))}
), found AS (
    SELECT s.name, b.id, b.status, b.waiting_for, b.queue, b.lane, COALESCE(b.closed, FALSE) AS closed, b.last,
           CASE WHEN removal.subject IS NOT NULL THEN '{Code.REMOVED}'
                WHEN s.retired_at IS NOT NULL THEN '{Code.RETIRED}'
                WHEN s.paused_at IS NOT NULL THEN '{Code.PAUSED}'
                WHEN NOT c.enabled THEN '{Code.DISABLED}'
                WHEN b.id IS NOT NULL THEN ''
                WHEN a.next_backup_at > %(now)s THEN '{Code.NOT_DUE}'
                WHEN a.failures > 0 THEN '{Code.FAILED}'
                ELSE '{Code.NOT_PLANNED}' END AS code
      FROM sources_assignment a
      JOIN sources_source s ON s.id = a.source_id
      JOIN sources_policy p ON p.id = a.policy_id
      JOIN schedules_schedule c ON c.origin_id = p.schedule_id
      LEFT JOIN record b ON b.subject = 'assignment:' || a.id
      LEFT JOIN jobs_backlogrecord removal ON removal.kind = '{REMOVAL}' AND removal.subject = 'source:' || s.id
                AND removal.status IN {tuple(map(int, UNFINISHED))}
 UNION ALL
    SELECT s.name, NULL, NULL, NULL, NULL, NULL, FALSE, NULL, '{Code.UNPROTECTED}'
      FROM sources_source s
     WHERE s.retired_at IS NULL AND NOT EXISTS (SELECT FROM sources_assignment a WHERE a.source_id = s.id)
)
SELECT code, status, waiting_for, queue, lane, closed, last, count(*), min(id),
       ARRAY(SELECT each FROM unnest(array_agg(name)) AS each ORDER BY each LIMIT {NAMED})
  FROM found
 GROUP BY code, status, waiting_for, queue, lane, closed, last
"""


class _Group(NamedTuple):
    code: str
    status: int | None
    waiting_for: int | None
    queue: str | None
    lane: int | None
    closed: bool
    last: int | None
    number: int
    example: int | None
    names: list[str]


@dataclass(frozen=True)
class ReasonGroup:
    """The number of sources under policies that a reason keeps from running, and some of them by name."""

    code: Code
    number: int
    names: tuple[str, ...]

    @property
    def as_facts(self) -> dict[str, Any]:
        """The group by name."""
        return {"code": str(self.code), "what": WHAT[self.code], "number": self.number, "names": list(self.names)}


def explain_all(now: datetime, check_time: Callable[[], object] = lambda: None) -> list[ReasonGroup]:
    """All groups, the largest first. The number of statements does not grow with the sources. `check_time` is called
    before each group, and may raise."""
    with connection.cursor() as cursor:
        cursor.execute(GROUPS, {"now": now})
        rows = [_Group(*row) for row in cursor.fetchall()]
    of_backups = BacklogRecord.objects.select_related("retry_policy")
    examples = of_backups.in_bulk([row.example for row in rows if row.example])
    around = Surroundings(list(examples.values()), now)
    numbers, names = defaultdict[Code, int](int), defaultdict[Code, list[str]](list)
    for row in rows:
        check_time()
        code = Code(row.code) if row.code else _first(examples.get(row.example or 0), around)
        numbers[code] += row.number
        names[code] += row.names
    found = [ReasonGroup(code, number, tuple(sorted(names[code])[:NAMED])) for code, number in numbers.items()]
    return sorted(found, key=lambda group: (-group.number, group.code))


def _first(record: BacklogRecord | None, around: Surroundings) -> Code:
    """The first reason of one record, which represents its whole group."""
    if record is None or record.status in FINISHED:
        return Code.NOT_PLANNED  # it ended at this moment
    if record.status == Status.RUNNING:
        return Code.RUNNING
    return next((each.code for each in hindrances(record, around)), Code.READY)
