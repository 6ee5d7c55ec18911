"""Effects of an edit on many rows: one batch in each transaction, and the rest in the background.

`roll_out` does as much as it can in SECONDS, in the edit's own transaction if there is one. Rows that are left, or
locked by others for LOCK_SECONDS, become one record of the kind `edit`, which holds the id up to which it is done, and
any worker continues there. Each batch and that id are one transaction, so a killed worker loses a batch. The record is
written last, and only if its lease and its payload are unchanged: a newer edit, which has set it back to its beginning,
undoes the batch and waits for none of its locks; and a lost lease changes nothing. An edit that comes after the last
batch, before the record is settled, is found by the settle, which puts a new record on the backlog. A batch done twice
changes nothing.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.utils import OperationalError

from jobs import backlog
from jobs.database_errors import is_busy
from jobs.handlers import Kind, Run, one_by_one, registry
from jobs.models import BacklogRecord
from jobs.outcomes import ClaimedRecord, Outcome, Released, Succeeded
from jobs.prepared_statements import execute
from jobs.states import UNFINISHED, Status

KIND = "edit"
QUEUE = "default"
BATCH = 1000
"""Rows per transaction: others that need one of them wait for about 100 ms."""
SECONDS = 0.3
"""Seconds for which an edit does batches itself, after the first one. A worker does the rest."""
LOCK_SECONDS = 2
"""Seconds for which a batch waits for a row. Others wait for the batch's rows in that time."""

# Served by `one_unfinished_record_per_subject`. The edit may have corrected the cause of a failure.
BEGIN_AGAIN = f"""
UPDATE jobs_backlogrecord
   SET payload = payload || jsonb_build_object('reached', 0, 'done', 0, 'edits', (payload ->> 'edits')::int + 1),
       status = CASE WHEN status = {Status.WAITING} THEN {Status.READY} ELSE status END, waiting_for = NULL
 WHERE kind = '{KIND}' AND subject = %(subject)s AND status IN {tuple(map(int, UNFINISHED))}
"""

LIMIT_LOCK_WAITS = "SET LOCAL lock_timeout = '{}s'"

OWN_RECORD = "SELECT payload FROM jobs_backlogrecord WHERE id = %(id)s AND lease_token = %(token)s::uuid"

NOTE = """
UPDATE jobs_backlogrecord
   SET payload = jsonb_strip_nulls(payload || jsonb_build_object(
       'reached', %(reached)s::bigint, 'done', (payload ->> 'done')::bigint + %(rows)s::bigint))
 WHERE id = %(id)s AND lease_token = %(token)s::uuid AND payload = %(was)s::jsonb
"""


@dataclass(frozen=True)
class Batch:
    """The result of one step. `reached`: the last id that it processed, or None if nothing was left. `rows`: the number
    that it read, `changed`: the number of them that differ now.
    """

    reached: int | None
    rows: int = 0
    changed: int = 0


@dataclass(frozen=True)
class RolloutProgress:
    """The progress of an edit that continues in the background: the rows done, and about how many there are."""

    done: int
    of: int

    def __str__(self) -> str:
        return f"{self.done:,} of {self.of:,} follow its last edit so far, the others in the background"


steps: dict[str, Callable[..., Batch]] = {}
"""Name → a function of the edited row's id and the last id done, which does the next batch, in one transaction."""


def register(name: str, step: Callable[..., Batch]) -> None:
    """Register the effect of an edit of such a row. Registering it again replaces it."""
    steps[name] = step


def roll_out(name: str, row_id: int, *, title: str, of: Callable[[], int], **given: Any) -> int:
    """Apply the effects of the edit of row `row_id`. Returns how many rows were changed before it returned.

    `title`: the edited row, for users; `of`: counts the affected rows; `given`: more for the steps that are done here.
    """
    subject, until = f"{name}:{row_id}", time.monotonic() + SECONDS
    if execute(BEGIN_AGAIN, {"subject": subject}).rowcount:
        return 0
    batch, done, changed = Batch(0), 0, 0
    try:
        while batch.reached is not None and (batch.rows < BATCH or time.monotonic() < until):
            batch = _step(name, row_id, batch.reached, **given)
            done, changed = done + batch.rows, changed + batch.changed
    except OperationalError as error:
        if not is_busy(error):
            raise
    if batch.reached is not None:
        payload = {"title": f"{name} {title}", "reached": batch.reached, "done": done, "of": of(), "edits": 1}
        if not backlog.enqueue(KIND, [(subject, payload)]):
            execute(BEGIN_AGAIN, {"subject": subject})  # of another edit at this moment, which may be an older one
    return changed


def _step(name: str, row_id: int, after: int, **given: Any) -> Batch:
    """Do a batch. Within the transaction of the edit the limit for locks stays that of the edit."""
    if connection.in_atomic_block:
        return steps[name](row_id, after, **given)
    with transaction.atomic():
        execute(LIMIT_LOCK_WAITS.format(LOCK_SECONDS), {})
        return steps[name](row_id, after, **given)


def progress(name: str, row_ids: Iterable[int]) -> dict[int, RolloutProgress]:
    """Row id → the progress of its last edit, for those whose edit continues in the background."""
    ids = {f"{name}:{row_id}": row_id for row_id in row_ids}
    found = BacklogRecord.objects.unfinished().filter(kind=KIND, subject__in=ids)
    return {
        ids[subject]: RolloutProgress(payload["done"], payload["of"])
        for subject, payload in found.values_list("subject", "payload")
    }


def run_rollout(run: Run) -> Outcome:
    """The handler: one batch after the other, from where it was left."""
    while not run.is_stopped:
        try:
            if not _do_one_batch(run.record):
                return Succeeded()
        except OperationalError as error:
            if not is_busy(error):
                raise
            run.stop.wait(1)  # others hold a row that it needs
    return Released("stopped in the middle; it continues there")


@transaction.atomic
def _do_one_batch(record: ClaimedRecord) -> bool:
    """Returns whether there may be more."""
    execute(LIMIT_LOCK_WAITS.format(LOCK_SECONDS), {})
    lease = {"id": record.id, "token": record.lease_token}
    mine = execute(OWN_RECORD, lease).fetchone()
    if mine is None or (after := json.loads(mine[0]).get("reached")) is None:
        return False  # another worker has it, or a worker that died had done the last batch
    name, _, row_id = record.subject.partition(":")
    batch = steps[name](int(row_id), after)
    if not execute(NOTE, {**lease, "was": mine[0], "reached": batch.reached, "rows": batch.rows}).rowcount:
        transaction.set_rollback(True)
        return True
    return batch.reached is not None


def begin_again(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Start again, in the settle, if the row was edited after the last batch."""
    edited = BacklogRecord.objects.filter(pk=record.id, payload__has_key="reached").values_list("payload", flat=True)
    if isinstance(outcome, Succeeded) and (payload := edited.first()):
        backlog.enqueue(KIND, [(record.subject, payload)], now=now)


def register_kind() -> None:
    """Tell the backlog about edits."""
    registry.add(Kind(KIND, home_queue=QUEUE, after_settle=one_by_one(begin_again)))
    registry.handler(KIND, queue=QUEUE)(run_rollout)
