"""Rows that were claimed, read into values; rows that cannot be read are set aside and named.

The table accepts rows that other programs insert. It refuses instants and days that Python cannot read
(`jobs/instants.py`), but accepts payloads that Python's JSON does not: a number of five thousand digits, a thousand
brackets, a list. Such a record has failed before any handler sees it: it is one of the dead letters, with the reason,
and the records claimed with it run.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from jobs import decisions
from jobs.clock import CLOCK
from jobs.outcomes import MAX_ERROR_LENGTH, ClaimedRecord
from jobs.prepared_statements import execute, storable
from jobs.states import AttemptOutcome, Status

log = logging.getLogger(__name__)

UNREADABLE = (ValueError, RecursionError)

# Fenced as a settle is, but reading nothing of the row.
SET_ASIDE = f"""
WITH ended AS (
    UPDATE jobs_backlogrecord
       SET status = {Status.FAILED}, finished_at = {CLOCK}, last_error = %(error)s::text, exclusive_key = NULL,
           leased_by_id = NULL, lease_token = NULL, lease_expires_at = NULL
     WHERE id = %(id)s::bigint AND lease_token = %(token)s::uuid
    RETURNING id, attempt, queue, started_at, finished_at
)
INSERT INTO jobs_attempt (record_id, number, queue, worker_id, started_at, ended_at, outcome, error)
SELECT id, attempt, queue, %(worker)s::bigint, started_at, GREATEST(finished_at, started_at), {AttemptOutcome.FAILED},
       %(error)s::text
  FROM ended
"""


def claimed(row: Sequence[Any], worker_id: int, token: UUID) -> ClaimedRecord:
    """A row of RECORD_COLUMNS, in the order of the fields of `ClaimedRecord`, with its lease.

    Raises: ValueError, or RecursionError, for a payload that is not a JSON object as Python reads it.
    """
    payload = row[-1]
    if payload == "{}":
        return ClaimedRecord._make((*row[:-1], {}, worker_id, token))
    read = json.loads(payload)
    if type(read) is not dict:
        raise ValueError(f"it is not a JSON object but {payload:.40}")
    return ClaimedRecord._make((*row[:-1], read, worker_id, token))


def all_claimed(rows: Iterable[Sequence[Any]]) -> list[ClaimedRecord]:
    """Rows of RECORD_COLUMNS, each followed by its worker's id and its lease token. Those that cannot be read
    fail, and are left out."""
    found = []
    for *row, worker_id, token in rows:
        try:
            found.append(claimed(row, worker_id, token))
        except UNREADABLE as error:
            _fail_unreadable(row, worker_id, token, error)
    return found


def _fail_unreadable(row: Sequence[Any], worker_id: int, token: UUID, error: Exception) -> None:
    named = dict(zip(ClaimedRecord._fields, row, strict=False))
    text = storable(f"its payload cannot be read, and no handler was asked: {error}", MAX_ERROR_LENGTH)
    log.error("set aside record #%s, %s %s: %s", named["id"], named["kind"], named["subject"], text)
    execute(SET_ASIDE, {"id": named["id"], "token": token, "worker": worker_id, "error": text, "now": None})
    line = f"{named['subject']}: {text}"
    decisions.log("set aside", line, kind=named["kind"], subject=named["subject"])
