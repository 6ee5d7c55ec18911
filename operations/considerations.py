"""The considerations of claims, in the log of decisions: the records that each took and left, and the key that decided
between them.

Off unless `JOBS["CONSIDERING"]` is set.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jobs import conf, decisions
from jobs.clock import database_clock
from jobs.database_errors import is_away
from jobs.models import BacklogRecord, Decision, Lane, Level
from jobs.order import REASONS, claim_key, deciding_key, in_claim_order
from jobs.outcomes import ClaimedRecord

log = logging.getLogger(__name__)

SHOWN_CLAIMED = 20
SHOWN_LEFT = 5
"""Candidates that a line names: records that were taken, and those that would have been next."""

HELD = "throttle"
"""The deciding factor when it was not a key of the claim order."""

_fruitless: set[str] = set()
"""Queues whose last claim took nothing: the log records that once."""


def log_claim(queue: str, claimed: Sequence[ClaimedRecord], wanted: int, worker_id: int) -> None:
    """Log a claim that has ended; it stays valid, whatever goes wrong here. Raises: django.db.Error if the database is
    down.
    """
    if not conf.considering():
        return
    try:
        if claimed or queue not in _fruitless:
            consider(queue, claimed, wanted, worker_id)
    except Exception as error:
        if is_away(error):
            raise
        log.exception("cannot log what a claim of %s considered; the claim is valid all the same", queue)
    (_fruitless.discard if claimed else _fruitless.add)(queue)


def consider(
    queue: str, claimed: Sequence[ClaimedRecord], wanted: int, worker_id: int, now: datetime | None = None
) -> None:
    """Write the records that a claim of `queue` compared: those that it took, those that would have been next, and the
    key that decided.

    A claim that found no record at all writes nothing.
    """
    instant = now or database_clock()
    left = _left(queue, instant)
    taken = f"{len(claimed)} of {wanted} wanted were claimed from {queue}"
    if not left and not claimed:
        return
    if not left:
        decided, text = None, f"{taken}; no other was ready"
    elif not claimed or claim_key(left[0]) < claim_key(claimed[-1]) or len(claimed) < wanted:
        # a claim takes the first in order: a record that ranks before its last one was held back
        decided, text = HELD, f"{taken}; {_title(left[0])} was held by its throttle, a paused queue or another claim"
    else:
        decided = deciding_key(claimed[-1], left[0])
        text = f"{taken}; {_title(claimed[-1])} came before {_title(left[0])}: {REASONS[decided]}"
    facts = {
        "wanted": wanted,
        "count": len(claimed),
        "claimed": [_keys(record) for record in claimed[:SHOWN_CLAIMED]],
        "left": [_keys(record) for record in left],
        "decided_by": decided,
    }
    row = {"what": "claimed", "text": text, "facts": facts, "at": instant, "queue": queue, "worker_id": worker_id}
    decisions.log_line(Decision.objects.create(level=Level.CONSIDERING, kind=(claimed or left)[0].kind, **row))


def _left(queue: str, now: datetime) -> list[BacklogRecord]:
    """The first records that a claim left, lane by lane, so that the index of the claim order serves it."""
    ready = BacklogRecord.objects.ready().filter(queue=queue).open_at(now)
    lanes = [0, *Lane.objects.values_list("pk", flat=True)]
    heads = [record for lane in lanes for record in ready.filter(lane=lane).in_claim_order()[:SHOWN_LEFT]]
    return in_claim_order(heads)[:SHOWN_LEFT]


def _title(record: Any) -> str:
    return str(record.payload.get("title") or record.subject)


def _keys(record: ClaimedRecord | BacklogRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "subject": record.subject,
        "title": _title(record),
        "priority": record.priority,
        "rank_day": record.rank_day.isoformat() if record.rank_day else None,
        "tried_at": record.tried_at.isoformat() if record.tried_at else None,
        "expected_seconds": record.expected_seconds,
    }
