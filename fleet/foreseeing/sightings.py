"""Sightings as they were recorded: the attempts of records, and check-ins of agents: those that were news, and the last
one of each source.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.db import connection

from fleet.foreseeing.presence import Sighting
from jobs.states import AttemptOutcome
from sources.planning.names import ARRIVALS, AVAILABILITY, BACKUPS, KIND

_COLUMNS = """t.queue, t.outcome,
       extract(epoch FROM t.started_at - %(since)s)::float8, extract(epoch FROM t.ended_at - %(since)s)::float8"""

# Served by the index of ended attempts, which is small; for each the assignment, and its start and end.
ATTEMPTS = f"""
SELECT substring(r.subject FROM '^assignment:([0-9]{{1,18}})$')::bigint, {_COLUMNS}
  FROM jobs_attempt t
  JOIN jobs_backlogrecord r ON r.id = t.record_id AND r.kind = '{KIND}'
 WHERE t.ended_at > %(since)s AND t.queue IN ('{AVAILABILITY}', '{ARRIVALS}', '{BACKUPS}')
"""

# Of some assignments: served by `backups_of_subject` and `one_unfinished_record_per_subject`.
ATTEMPTS_OF_SOME = f"""
SELECT asked.id, {_COLUMNS}
  FROM unnest(%(assignments)s::bigint[]) AS asked(id)
  JOIN jobs_backlogrecord r ON r.kind = '{KIND}' AND r.subject = 'assignment:' || asked.id
   AND (r.finished_at IS NULL OR r.finished_at > %(since)s)
  JOIN jobs_attempt t ON t.record_id = r.id
 WHERE t.ended_at > %(since)s AND t.queue IN ('{AVAILABILITY}', '{ARRIVALS}', '{BACKUPS}')
"""
SOME = 10_000

CHECK_INS = f"""
SELECT substring(subject FROM '^source:([0-9]{{1,18}})$')::bigint, extract(epoch FROM at - %(since)s)::float8
  FROM jobs_decision
 WHERE kind = '{KIND}' AND what = 'checked in' AND subject LIKE 'source:%%' AND at > %(since)s
 UNION ALL
SELECT id, extract(epoch FROM checked_in_at - %(since)s)::float8 FROM sources_source WHERE checked_in_at > %(since)s
"""

FIRST = "SELECT min(ended_at) FROM jobs_attempt WHERE ended_at > %(since)s"


def first_attempt_at(since: datetime) -> datetime | None:
    """The end of the first attempt after `since`. None if there is none."""
    [[found]] = _rows(FIRST, since)
    return found  # type: ignore[no-any-return]


def sightings_since(since: datetime, source_of: Mapping[int, int], shift: float = 0.0) -> dict[int, list[Sighting]]:
    """Source → its sightings, in seconds since `since` less `shift`. `source_of`: assignment → source."""
    found: dict[int, list[Sighting]] = defaultdict(list)
    attempts = ATTEMPTS_OF_SOME if len(source_of) <= SOME else ATTEMPTS
    for assignment, queue, outcome, started, ended in _rows(attempts, since, assignments=list(source_of)):
        if assignment in source_of:
            found[source_of[assignment]] += _sightings(queue, outcome, max(0.0, started - shift), ended - shift)
    for source, at in _rows(CHECK_INS, since):
        found[source].append(Sighting(at - shift, at - shift, True))
    return found


def _rows(sql: str, since: datetime, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"since": since, **values})
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def _sightings(queue: str, outcome: int, started: float, ended: float) -> Iterator[Sighting]:
    if queue == BACKUPS:
        yield Sighting(started, ended, True)
        if outcome == AttemptOutcome.UNAVAILABLE:  # it left
            yield Sighting(ended, ended, False)
    elif queue == ARRIVALS:  # it had checked in
        yield Sighting(started, started, True)
    elif outcome == AttemptOutcome.HANDOFF:
        yield Sighting(ended, ended, True)
    elif outcome == AttemptOutcome.UNAVAILABLE:
        yield Sighting(started, ended, False)
