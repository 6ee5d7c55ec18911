"""A batch ends, or is under way again because a user retries one of its records; and both at the same moment.

A finish locks the trigger of its batch FOR UPDATE, skipping locked ones, and asks for unfinished records in a
statement after that. A retry holds the trigger of its record's batch FOR KEY SHARE from before it opens the
record until its commit, and takes the end back in a statement after that. The two locks exclude each other, and each
new statement sees what was committed before it (READ COMMITTED):

- the retry comes first: the batch is skipped, and found under way by the next round;
- the finish comes first: the retry waits for its commit, sees that the batch has ended, and takes that back.

Emitters lock triggers FOR NO KEY UPDATE, which FOR KEY SHARE neither waits for nor holds up: an emitter may wait for
the retry in its turn, at the unique index of unfinished subjects.

Locks are taken in the order of the emitter: schedules, triggers in id order, records in id order. A finish that is part
of a longer transaction holds schedules, and waits for no record and no transaction that holds a trigger FOR KEY SHARE;
so also a retry whose caller has locked its records already goes round in no circle with it. The end is taken back (FOR
NO KEY UPDATE) as the last thing that a retry waits for.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from jobs.prepared_statements import execute
from schedules.statements import FIND_WITNESSES

LOCK_ENDED = """
SELECT id
  FROM schedules_trigger
 WHERE id = ANY(%(ids)s::bigint[]) AND emitted_at IS NOT NULL AND finished_at IS NULL
 ORDER BY id
   FOR UPDATE SKIP LOCKED
"""

# Locked by this transaction.
FINISH = """
UPDATE schedules_trigger SET finished_at = %(now)s::timestamptz WHERE id = ANY(%(ids)s::bigint[])
"""

# Triggers in any state: one may be finished at this moment.
HOLD = """
SELECT t.id
  FROM schedules_trigger t
 WHERE (t.schedule_id, t.trigger_at) IN (
       SELECT origin_id, trigger_at FROM jobs_backlogrecord WHERE id = ANY(%(ids)s::bigint[]))
 ORDER BY t.id
   FOR KEY SHARE OF t
"""

# A skipped trigger emitted no records; those of a provider's earlier answer do not bring it back.
TAKE_BACK = """
UPDATE schedules_trigger
   SET finished_at = NULL
 WHERE id = ANY(ARRAY(
       SELECT t.id
         FROM schedules_trigger t
        WHERE t.emitted_at IS NOT NULL AND t.finished_at IS NOT NULL
          AND (t.schedule_id, t.trigger_at) IN (
              SELECT origin_id, trigger_at FROM jobs_backlogrecord WHERE id = ANY(%(ids)s::bigint[]))
        ORDER BY t.id
          FOR NO KEY UPDATE OF t))
"""


def finish(trigger_ids: Sequence[int], now: datetime) -> int:
    """Note the ends of these batches, which had no unfinished record a moment ago. Returns the number of ends.

    Batches that others hold locked are left to the next round, and so are those that a retry has put under way since.
    """
    with transaction.atomic(savepoint=False):
        locked = [row[0] for row in execute(LOCK_ENDED, {"ids": list(trigger_ids)}).fetchall()]
        found = execute(FIND_WITNESSES, {"ids": locked}).fetchall() if locked else []
        ended = [trigger_id for trigger_id, witness in found if witness is None]
        return execute(FINISH, {"ids": ended, "now": now}).rowcount if ended else 0


def hold(record_ids: Sequence[int]) -> None:
    """Keep the batches of these records from being finished until the transaction ends; waits for a finish under way.

    Must be called before the records are locked.
    """
    execute(HOLD, {"ids": list(record_ids)})


def take_back(record_ids: Sequence[int]) -> None:
    """Put the batches of these records, which are held and unfinished, under way again."""
    execute(TAKE_BACK, {"ids": list(record_ids)})
