"""The history of a record that is tried for ever is bounded: its latest attempts are kept, the others deleted.

A settle that is tried again looks for its own attempt in the history (`claiming._without_history`), and that is one of
the latest.
"""

from django.db import connection

from jobs.states import UNFINISHED

KEPT = 1000
"""Attempts of a record. At one a day that is the history of three years."""

BATCH = 5000

# An attempt is counted at each claim, so only what was claimed more often can have more of them. Unfinished ones alone:
# what has ended gains none any more and goes when its retention is over. Served by `one_unfinished_record_per_subject`.
CANDIDATES = f"""
SELECT id
  FROM jobs_backlogrecord
 WHERE status IN {tuple(map(int, UNFINISHED))} AND attempt > %(kept)s
 ORDER BY id
"""

# Both served by the key of the attempts: (record, number). Numbers may have gaps, so they are counted, not computed.
PRUNE = """
DELETE FROM jobs_attempt
 WHERE ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_attempt
        WHERE record_id = %(record)s
          AND number <= (
              SELECT number
                FROM jobs_attempt
               WHERE record_id = %(record)s
               ORDER BY number DESC
              OFFSET %(kept)s
               LIMIT 1)
        ORDER BY number
        LIMIT %(limit)s))
"""


def prune(*, kept: int = KEPT) -> int:
    """Delete what each unfinished record has beyond its `kept` latest attempts, in small batches. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(CANDIDATES, {"kept": kept})
        candidates = [record_id for (record_id,) in cursor.fetchall()]
    return sum(_prune(record_id, kept) for record_id in candidates)


def _prune(record_id: int, kept: int) -> int:
    pruned = 0
    with connection.cursor() as cursor:
        while True:
            cursor.execute(PRUNE, {"record": record_id, "kept": kept, "limit": BATCH})
            pruned += int(cursor.rowcount)
            if cursor.rowcount < BATCH:
                return pruned
