"""Corrects, every five minutes, the waits and ranks that a database clock which was ahead has left behind.

After one tick or settle by a clock that is a month ahead, a record waits until then, or ranks behind everything that
becomes due until then; one unfinished record keeps its assignment from every period in between. No instant of a wait
shows the clock by which it was computed, but the attempt before the wait does: it ended in the future. Such a wait ends
now, and the record is tried, which at worst is one try too early: by a clock that is set back behind the true time,
every attempt is in the future. Waits for a window and for a snooze do not follow from an attempt: the module that knows
windows and snoozes corrects them (`sources.planning.clock_repairs`).

Rows that others hold locked are corrected the next time.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from jobs import order, promotion
from jobs.clock import database_clock
from jobs.prepared_statements import until_done
from jobs.states import Status, WaitingFor

BATCH = 1000
SECONDS = 0.5
"""Seconds of a minute's round, for each step."""

A_MOMENT = timedelta(seconds=5)
"""The longest time between a look at the clock and later settles of others. A wait may be too long by as much."""

# Attempts by `attempt_ended`, almost none in normal operation; their records by the primary key. Only the latest
# attempt counts: a record that is let through is claimed under the next number, and its earlier attempts do not explain
# its present wait.
AFTER_ATTEMPTS = promotion.statement(
    f"""waiting_for IN ({WaitingFor.RECHECK}, {WaitingFor.BACKOFF}, {WaitingFor.THROTTLE}, {WaitingFor.BREAKER})
          AND run_after > %(now)s::timestamptz
          AND (id, attempt) IN (
              SELECT record_id, number FROM jobs_attempt WHERE ended_at > %(soon)s::timestamptz)""",
    "id",
)

# Ready records only: waiting ones are looked at when they have become ready. The conditions are on keys of
# `backlog_claim_order`, so for records with a right rank only the index is read. No other index is in the order of
# an expression: in that of ids the server could read all records there are. `RANK` is what
# `order.demoted_by_failure` yields today; the day is that of UTC, a few hours off that of another zone.
RANK = f"GREATEST(due_day, %(today)s::date) + LEAST(failures, {order.LONGEST_DEMOTION_DAYS})"
RANKED = f"""
UPDATE jobs_backlogrecord
   SET rank_day = LEAST(rank_day, {RANK}), tried_at = LEAST(tried_at, %(now)s::timestamptz)
 WHERE id = ANY(ARRAY(
       SELECT id
         FROM jobs_backlogrecord
        WHERE status = {Status.READY} AND {{which}}
        ORDER BY id + 0
        LIMIT %(limit)s::int
          FOR UPDATE SKIP LOCKED))
"""
TRIED_LATER = RANKED.format(which="tried_at > %(soon)s::timestamptz")
RANKED_LATER = RANKED.format(
    which=f"rank_day > %(today)s::date + {order.LONGEST_DEMOTION_DAYS + 1} AND rank_day > {RANK}"
)


def correct(now: datetime | None = None) -> int:
    """End the waits that follow from attempts in the future, and correct the ranks of ready records that have one. Each
    for some seconds; the next round does the rest. Returns the number of changed records.

    `now` (aware) replaces the database's clock in tests.
    """
    instant = now or database_clock()
    values = {"now": instant, "soon": instant + A_MOMENT, "today": instant.date(), "limit": BATCH}
    changed = until_done(lambda: len(promotion.make_ready(AFTER_ATTEMPTS, values)), BATCH, SECONDS)
    until = time.monotonic() + 2 * SECONDS
    while True:
        counts = _planned_for_these((TRIED_LATER, RANKED_LATER), values)
        changed += sum(counts)
        if max(counts) < BATCH or time.monotonic() >= until:
            return changed


def _planned_for_these(statements: Sequence[str], values: dict[str, Any]) -> list[int]:
    """Run statements that Django binds, and return the number of rows that each changed. A worker's generic plan
    expects a third of the ready records, and so reads all records.

    So would a plan before PostgreSQL 18, which skips within an index, once a crowd has bloated the index of ready
    records: it expects to read all of it.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        counts = list[int]()
        for sql in statements:
            cursor.execute(sql, values)
            counts.append(cursor.rowcount)
        return counts
