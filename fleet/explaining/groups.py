"""All sources by the first reason why their backups do not run: each source under each policy counts once."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from fleet.assignment_findings import APART, OF_SUBJECT
from jobs.models import BacklogRecord
from jobs.states import FINISHED, UNFINISHED, Status, WaitingFor
from operations.backlog.reason import WHAT, Code
from operations.backlog.reasons import hindrances
from operations.backlog.surroundings import Surroundings
from sources.planning.names import KIND, REMOVAL

NAMED = 3

# One pass over the sources with their assignments, joined at once to the unfinished records. A group of records is one
# number, in which each fact that decides their obstacles has digits: the status, what they wait for, whether their
# window has closed, and the outcome that tells whether one that is looked at again was silent or put off. Ready ones
# are also distinguished by queue and lane. APART, the planner takes the groups for few, and sorts no source.
# The first names of a group are picked from it: `array_agg(name ORDER BY name)` would sort all names.
GROUPS = f"""
SELECT code, queue, lane, count(*), min(id),
       ARRAY(SELECT each FROM unnest(array_agg(name)) AS each ORDER BY each LIMIT {NAMED})
  FROM (
SELECT s.name, b.id, b.queue, b.lane,
       CASE WHEN a.id IS NULL THEN '{Code.UNPROTECTED}'
            WHEN removal.subject IS NOT NULL THEN '{Code.REMOVED}'
            WHEN s.retired_at IS NOT NULL THEN '{Code.RETIRED}'
            WHEN s.paused_at IS NOT NULL THEN '{Code.PAUSED}'
            WHEN NOT policy.enabled THEN '{Code.DISABLED}'
            WHEN b.id IS NOT NULL THEN b.state::text
            WHEN a.next_backup_at > %(now)s THEN '{Code.NOT_DUE}'
            WHEN a.failures > 0 THEN '{Code.FAILED}'
            ELSE '{Code.NOT_PLANNED}' END AS code
  FROM sources_source s
  LEFT JOIN (sources_assignment a
             JOIN (SELECT p.id, c.enabled
                     FROM sources_policy p
                     JOIN schedules_schedule c ON c.origin_id = p.schedule_id
                    {APART}) AS policy ON policy.id = a.policy_id) ON a.source_id = s.id
  LEFT JOIN (SELECT {OF_SUBJECT} AS assignment, id, queue, lane,
                    100000 * status + 1000 * COALESCE(waiting_for, 0)
                    + CASE WHEN closes_at <= %(now)s THEN 100 ELSE 0 END
                    + CASE WHEN waiting_for = {WaitingFor.RECHECK} THEN COALESCE(
                      (SELECT outcome FROM jobs_attempt t WHERE t.record_id = r.id AND t.number = r.attempt), 0)
                      ELSE 0 END AS state
               FROM jobs_backlogrecord r
              WHERE kind = '{KIND}' AND status IN {tuple(map(int, UNFINISHED))}
             {APART}) AS b ON b.assignment = a.id
  LEFT JOIN jobs_backlogrecord removal ON removal.kind = '{REMOVAL}' AND removal.subject = 'source:' || s.id
            AND removal.status IN {tuple(map(int, UNFINISHED))}
 WHERE a.id IS NOT NULL OR s.retired_at IS NULL
{APART}) AS found
 GROUP BY code, queue, lane
"""


class _Group(NamedTuple):
    code: str
    queue: str | None
    lane: int | None
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
        code = _first(examples.get(row.example or 0), around) if row.code.isdecimal() else Code(row.code)
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
