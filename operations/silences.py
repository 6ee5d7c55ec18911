"""Compaction of consecutive silences, such as those of a laptop that is asked every 15 minutes for a month, into one
row.

One row for each record: the last attempt's, with the first one's start and their number among its facts. The lines in
the log of decisions are compacted likewise. A settle that is tried again looks for its own attempt in the history: that
attempt is younger than any compacted row, since a result is kept for a lease.
"""

import time
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from jobs import conf
from jobs.clock import database_clock
from jobs.decisions import SILENT
from jobs.periodic import claimed_more_often_than
from jobs.prepared_statements import execute
from jobs.states import AttemptOutcome

SILENCES = "silences"
"""The fact of an attempt that represents this many, from its start to its end."""

DETAILED_FOR = timedelta(hours=1)
"""The time for which each silence has a row; at least ten leases."""

COMPACT_RECORDS = 200
"""Records in a transaction. Nothing waits for these rows but another compaction."""

COMPACT_SECONDS = 20.0
"""The duration of a call; the next one begins elsewhere."""

ALONE = "SELECT pg_try_advisory_xact_lock(hashtextextended('operations.silences.compact', 0))"

# Served by the key of the attempts. An attempt with another outcome, or one that is too young, ends a run.
COMPACT = f"""
WITH silent AS (
    SELECT record_id, queue, run, number, started_at, ended_at, COALESCE((facts ->> '{SILENCES}')::int, 1) AS silences
      FROM (SELECT *, count(*) FILTER (WHERE outcome <> {AttemptOutcome.UNAVAILABLE})
                      OVER (PARTITION BY record_id ORDER BY number) AS run
              FROM jobs_attempt
             WHERE record_id = ANY(%(ids)s::bigint[])) AS attempt
     WHERE outcome = {AttemptOutcome.UNAVAILABLE} AND ended_at < %(before)s::timestamptz
), merging AS (
    SELECT record_id, queue, run, min(number) AS first, max(number) AS last, min(started_at) AS started_at,
           max(ended_at) AS ended_at, sum(silences) AS silences
      FROM silent
     GROUP BY record_id, queue, run
    HAVING count(*) > 1
), gone AS (
    DELETE FROM jobs_attempt a
     USING silent JOIN merging USING (record_id, queue, run)
     WHERE a.record_id = silent.record_id AND a.number = silent.number AND a.number < merging.last
    RETURNING 1
), merged AS (
    UPDATE jobs_attempt a
       SET started_at = m.started_at, facts = jsonb_build_object('{SILENCES}', m.silences)
      FROM merging m
     WHERE a.record_id = m.record_id AND a.number = m.last
    RETURNING a.record_id, m.first, m.last, m.started_at, m.ended_at, m.silences
)
SELECT (SELECT count(*) FROM gone), merged.*
  FROM merged
"""

# Served by `decision_of_subject`. A line names its attempt from the settle on.
COMPACT_LINES = rf"""
WITH line AS (
    SELECT d.id, (d.facts ->> 'attempt')::int = run.last AS is_last, run.started_at, run.silences
      FROM unnest(%(ids)s::bigint[], %(first)s::int[], %(last)s::int[], %(started_at)s::timestamptz[],
                  %(ended_at)s::timestamptz[], %(silences)s::bigint[])
           AS run(id, first, last, started_at, ended_at, silences)
      JOIN jobs_backlogrecord b ON b.id = run.id
      JOIN jobs_decision d ON d.kind = b.kind AND d.subject = b.subject AND d.at BETWEEN run.started_at AND run.ended_at
     WHERE d.record_id = run.id AND d.what = '{SILENT}'
       AND (d.facts ->> 'attempt')::int BETWEEN run.first AND run.last
), gone AS (
    DELETE FROM jobs_decision WHERE id IN (SELECT id FROM line WHERE NOT is_last)
)
UPDATE jobs_decision d
   SET facts = d.facts || jsonb_build_object('{SILENCES}', line.silences, 'since', line.started_at),
       text = regexp_replace(d.text, ' \(silent [0-9]+ times since [^)]*\)$', '') || format(
              ' (silent %%s times since %%s UTC)', line.silences,
              to_char(line.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'))
  FROM line
 WHERE d.id = line.id AND line.is_last
"""


def prune(_before: datetime) -> int:
    """Compact in the queue's hourly round."""
    return compact()


def compact(now: datetime | None = None) -> int:
    """Make one row of the consecutive silences of each unfinished record that have been there for a while.

    It takes COMPACT_SECONDS at most, each time from another record on, so that none waits for ever behind others.
    Returns the number of attempt rows that it deleted.
    """
    instant = now or database_clock()
    before = instant - max(DETAILED_FOR, timedelta(seconds=10 * conf.lease_seconds()))
    until, records, compacted = time.monotonic() + COMPACT_SECONDS, claimed_more_often_than(1), 0
    begin = int(instant.timestamp()) % max(1, len(records))
    records = records[begin:] + records[:begin]
    for start in range(0, len(records), COMPACT_RECORDS):
        compacted += _compact(records[start : start + COMPACT_RECORDS], before)
        if time.monotonic() > until:
            break
    return compacted


@transaction.atomic
def _compact(ids: list[int], before: datetime) -> int:
    if not execute(ALONE, {}).fetchall()[0][0]:
        return 0
    if not (rows := execute(COMPACT, {"ids": ids, "before": before}).fetchall()):
        return 0
    names = ("ids", "first", "last", "started_at", "ended_at", "silences")
    columns: dict[str, Any] = dict(zip(names, map(list, list(zip(*rows, strict=True))[1:]), strict=True))
    execute(COMPACT_LINES, columns)
    return int(rows[0][0])
