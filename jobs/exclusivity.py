"""The limit of one running record per exclusive key, with a gate at each handoff.

A handoff under a key that another ready or running record has becomes a wait instead. The settle of a record with
that key opens the gate. Both take the key's advisory lock first, so neither can miss the other. The partial unique
index `one_running_record_per_exclusive_key` is the backstop: a violation would abort a whole claim.
"""

from collections.abc import Iterable, Sequence, Set
from datetime import datetime, timedelta
from uuid import UUID

from jobs.outcomes import ClaimedRecord, Handoff, Outcome
from jobs.prepared_statements import execute
from jobs.states import Status, WaitingFor
from jobs.transitions import Changes, Transition, waiting

LOOK_AGAIN_AFTER = timedelta(seconds=60)
"""The time until another look, which finds something only if the opening of the gate was missed, such as after a
restored database."""

LOCK_KEYS = "SELECT pg_advisory_xact_lock(hashtextextended(key, 0)) FROM unnest(%(keys)s::text[]) AS key"

TRY_KEYS = """
SELECT key
  FROM unnest(%(keys)s::text[]) AS key
 WHERE NOT pg_try_advisory_xact_lock(hashtextextended(key, 0))
"""

# Served by `backlog_exclusive_key`. Records that this settle itself moves do not count, by their token: a record whose
# lease was lost may run elsewhere while its late result is in this batch.
TAKEN = f"""
SELECT exclusive_key
  FROM jobs_backlogrecord b
 WHERE exclusive_key = ANY(%(keys)s::text[]) AND status IN ({Status.READY}, {Status.RUNNING})
   AND NOT EXISTS (
       SELECT FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) AS own(id, token)
        WHERE own.id = b.id AND own.token = b.lease_token)
"""

# By id: a ctid that was read just before another transaction moved the row would drop it out, for LOOK_AGAIN_AFTER.
# SKIP LOCKED: the caller holds other rows, so a wait out of id order could become a deadlock.
OPEN = f"""
UPDATE jobs_backlogrecord
   SET run_after = %(now)s::timestamptz
 WHERE id = ANY(ARRAY(
       SELECT id
         FROM jobs_backlogrecord
        WHERE exclusive_key = ANY(%(keys)s::text[]) AND status = {Status.WAITING}
          AND waiting_for = {WaitingFor.THROTTLE} AND run_after > %(now)s::timestamptz
        ORDER BY id
          FOR UPDATE SKIP LOCKED))
"""


def keys_of(record: ClaimedRecord, outcome: Outcome) -> set[str]:
    """The keys that a result takes or gives back."""
    keys = {record.exclusive_key, outcome.exclusive_key if isinstance(outcome, Handoff) else None}
    return {key for key in keys if key is not None}


def lock_keys(results: Sequence[tuple[ClaimedRecord, Outcome]], *, skip_locked: bool = False) -> set[str]:
    """Lock the keys of these results until the transaction ends, in order. Returns those that it skipped, since other
    transactions hold them."""
    keys = sorted({key for result in results for key in keys_of(*result)})
    if not keys:
        return set()
    rows = execute(TRY_KEYS if skip_locked else LOCK_KEYS, {"keys": keys}).fetchall()
    return {row[0] for row in rows} if skip_locked else set()


def gate(changes: Changes, leases: Set[tuple[int, UUID]], now: datetime) -> Changes:
    """Turn handoffs under a key that is taken into waits. The first of a batch under one key goes through.

    `leases`: (record id, lease token) of running records. A result whose lease was lost takes no key: it is dropped.
    """
    keys = [change.exclusive_key for record, change in changes if _hands_on(record, change, leases)]
    if not keys:
        return changes
    ids, tokens = [record.id for record, _ in changes], [record.lease_token for record, _ in changes]
    taken = {row[0] for row in execute(TAKEN, {"keys": keys, "ids": ids, "tokens": tokens}).fetchall()}
    gated = []
    for record, change in changes:
        if _hands_on(record, change, leases):
            if change.exclusive_key in taken:
                behind = change._replace(
                    queue=record.queue, error="another record of the same exclusive key is ready or running"
                )
                change = waiting(behind, WaitingFor.THROTTLE, now + LOOK_AGAIN_AFTER)
            else:
                taken.add(change.exclusive_key)
        gated.append((record, change))
    return gated


def _hands_on(record: ClaimedRecord, change: Transition, leases: Set[tuple[int, UUID]]) -> bool:
    return change.exclusive_key is not None and (record.id, record.lease_token) in leases


def open_gates(keys: Iterable[str | None], now: datetime) -> None:
    """Let the records that wait behind `keys` look again at the next tick; None stands for no key.

    For every ready or running record that loses its key; one that waits behind the gate has none to give. Call it in
    the transaction that locks the record, before locking any assignment. A concurrent handoff under the key then sees
    both changes or neither.
    """
    if held := sorted({key for key in keys if key is not None}):
        execute(LOCK_KEYS, {"keys": held})
        execute(OPEN, {"keys": held, "now": now})
