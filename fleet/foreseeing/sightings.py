"""Sightings as they were recorded: the attempts of records, and check-ins of agents: those that were news, and the last
one of each source.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from fleet.foreseeing.presence import Sighting
from jobs.states import UNFINISHED, AttemptOutcome
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

# Of some assignments: served by `backups_of_subject`, `one_unfinished_record_per_subject` and the key of the attempts.
# Joined with OR, all records are read.
ATTEMPTS_OF_SOME = f"""
SELECT asked.id, {_COLUMNS}
  FROM unnest(%(assignments)s::bigint[]) AS asked(id)
 CROSS JOIN LATERAL (
    SELECT id
      FROM jobs_backlogrecord
     WHERE kind = '{KIND}' AND subject = 'assignment:' || asked.id AND finished_at > %(since)s
     UNION ALL
    SELECT id
      FROM jobs_backlogrecord
     WHERE kind = '{KIND}' AND subject = 'assignment:' || asked.id AND status IN ({", ".join(map(str, UNFINISHED))})
 ) AS r
 CROSS JOIN LATERAL (
    SELECT queue, outcome, started_at, ended_at
      FROM jobs_attempt
     WHERE record_id = r.id AND ended_at > %(since)s AND queue IN ('{AVAILABILITY}', '{ARRIVALS}', '{BACKUPS}')
    OFFSET 0
 ) AS t
"""
SOME = 10_000

CHECK_INS = f"""
SELECT substring(subject FROM '^source:([0-9]{{1,18}})$')::bigint, extract(epoch FROM at - %(since)s)::float8
  FROM jobs_decision
 WHERE kind = '{KIND}' AND what = 'checked in' AND subject LIKE 'source:%%' AND at > %(since)s
 UNION ALL
SELECT id, extract(epoch FROM checked_in_at - %(since)s)::float8 FROM sources_source WHERE checked_in_at > %(since)s
"""

# Of some sources: served by `decision_of_subject` and the key of the sources.
CHECK_INS_OF_SOME = f"""
SELECT asked.id, extract(epoch FROM d.at - %(since)s)::float8
  FROM unnest(%(sources)s::bigint[]) AS asked(id)
  JOIN jobs_decision d ON d.kind = '{KIND}' AND d.subject = 'source:' || asked.id AND d.at > %(since)s
 WHERE d.what = 'checked in'
 UNION ALL
SELECT id, extract(epoch FROM checked_in_at - %(since)s)::float8
  FROM sources_source
 WHERE id = ANY(%(sources)s::bigint[]) AND checked_in_at > %(since)s
"""

FIRST = """
SELECT min(ended_at)
  FROM jobs_attempt
 WHERE ended_at > %(since)s + %(first)s AND ended_at <= %(since)s + %(last)s
"""


def first_attempt_at(since: datetime, days: int) -> datetime | None:
    """The end of the first attempt after `since`, within that many days; None if there is none. The index leads to the
    attempts of a day, so the first days are searched alone: a whole month takes seconds.
    """
    first, last = 0, 1
    while first < days:
        [[found]] = _rows(FIRST, since, first=timedelta(days=first), last=timedelta(days=last))
        if found is not None:
            return found  # type: ignore[no-any-return]
        first, last = last, 2 * last
    return None


def sightings_since(since: datetime, source_of: Mapping[int, int], shift: float = 0.0) -> dict[int, list[Sighting]]:
    """Source → its sightings, in seconds since `since` less `shift`. `source_of`: assignment → source."""
    found: dict[int, list[Sighting]] = defaultdict(list)
    some = len(source_of) <= SOME
    asked = {"assignments": list(source_of), "sources": sorted(set(source_of.values()))}
    attempts, check_ins = (ATTEMPTS_OF_SOME, CHECK_INS_OF_SOME) if some else (ATTEMPTS, CHECK_INS)
    for assignment, queue, outcome, started, ended in _rows(attempts, since, **asked):
        if assignment in source_of:
            found[source_of[assignment]] += _sightings(queue, outcome, max(0.0, started - shift), ended - shift)
    for source, at in _rows(check_ins, since, **asked):
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
